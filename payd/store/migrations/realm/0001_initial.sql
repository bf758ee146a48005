-- One realm (test or live): everything that money or a merchant's backend touches.
-- Times are Unix milliseconds in the realm's time. Bodies are frozen bytes. Ids are time-ordered, so their indexes grow at the end.

CREATE TABLE clock (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    offset_ms INTEGER NOT NULL DEFAULT 0,
    target_offset_ms INTEGER NOT NULL DEFAULT 0,   -- where a running job takes the clock; equal to offset_ms when none runs
    job_id TEXT,
    job_events INTEGER NOT NULL DEFAULT 0
);
INSERT INTO clock (id) VALUES (1);

CREATE TABLE api_keys (
    id TEXT PRIMARY KEY,
    account_id TEXT NOT NULL,
    hash BLOB NOT NULL UNIQUE,                     -- SHA-256 of the whole key
    prefix TEXT NOT NULL,
    last4 TEXT NOT NULL,
    name TEXT NOT NULL,
    scopes TEXT NOT NULL,                          -- space-separated
    merchants TEXT,                                -- space-separated merchant ids, NULL for all
    created_at_ms INTEGER NOT NULL,
    revoked_at_ms INTEGER
);

CREATE TABLE apps (
    id TEXT PRIMARY KEY,
    account_id TEXT,                               -- NULL for the checkout page's own app
    name TEXT NOT NULL,
    created_at_ms INTEGER NOT NULL,
    revoked_at_ms INTEGER
);

CREATE TABLE merchants (
    id TEXT PRIMARY KEY,
    account_id TEXT NOT NULL,
    name TEXT NOT NULL,
    email TEXT NOT NULL,
    icon_url TEXT,
    status TEXT NOT NULL,
    created_at_ms INTEGER NOT NULL,
    deleted_at_ms INTEGER
);
CREATE INDEX merchants_of_account ON merchants (account_id, created_at_ms, id) WHERE deleted_at_ms IS NULL;

CREATE TABLE settlements (
    id TEXT PRIMARY KEY,
    merchant_id TEXT NOT NULL,
    asset TEXT NOT NULL,                           -- as the merchant wrote it
    asset_key TEXT NOT NULL,                       -- canonical
    destination TEXT NOT NULL,
    created_at_ms INTEGER NOT NULL,
    updated_at_ms INTEGER NOT NULL,
    UNIQUE (merchant_id, asset_key)
);

CREATE TABLE payments (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    account_id TEXT NOT NULL,
    merchant_id TEXT NOT NULL,
    reference_id TEXT NOT NULL,
    currency TEXT NOT NULL,
    value INTEGER NOT NULL,                        -- minor units
    status TEXT NOT NULL,
    version INTEGER NOT NULL,
    asset TEXT,                                    -- paid with, once known
    network TEXT,
    created_at_ms INTEGER NOT NULL,
    due_at_ms INTEGER,                             -- when the payment must be looked at next; NULL: nothing to wait for
    parked_at_ms INTEGER,                          -- given up on by its supervisor; needs a person
    body BLOB NOT NULL                             -- the whole core.payment.Payment, MessagePack
);
CREATE INDEX payments_due ON payments (due_at_ms) WHERE due_at_ms IS NOT NULL AND parked_at_ms IS NULL;
CREATE INDEX payments_parked ON payments (parked_at_ms) WHERE parked_at_ms IS NOT NULL;
CREATE INDEX payments_by_date ON payments (account_id, created_at_ms, seq);
CREATE INDEX payments_by_status ON payments (account_id, status, created_at_ms, seq);
CREATE INDEX payments_by_merchant ON payments (merchant_id, created_at_ms, seq);
CREATE INDEX payments_by_amount ON payments (account_id, currency, value, seq);
CREATE INDEX payments_by_reference ON payments (account_id, reference_id, created_at_ms, seq);

CREATE TABLE routes (                              -- the destination of (payment, asset), frozen when first handed out
    payment_id TEXT NOT NULL,
    asset_key TEXT NOT NULL,
    settlement_id TEXT NOT NULL,                   -- once this one is removed, the payment takes the asset no more
    destination TEXT NOT NULL,
    PRIMARY KEY (payment_id, asset_key)
) WITHOUT ROWID;

CREATE TABLE options (                             -- one id for each (payment, asset, buyer account)
    id TEXT PRIMARY KEY,
    payment_id TEXT NOT NULL,
    asset TEXT NOT NULL,
    asset_key TEXT NOT NULL,
    account TEXT NOT NULL,                         -- as a wallet wrote it first
    account_key TEXT NOT NULL,                     -- canonical
    UNIQUE (payment_id, asset_key, account_key)
) WITHOUT ROWID;

CREATE TABLE quotes (                              -- every hand-out of an option; never changed
    seq INTEGER PRIMARY KEY,
    option_id TEXT NOT NULL,
    payment_id TEXT NOT NULL,
    amount TEXT NOT NULL,
    destination TEXT NOT NULL,
    actions BLOB NOT NULL,                         -- core.option.Action[], JSON
    valid_from_ms INTEGER NOT NULL,
    valid_until_ms INTEGER NOT NULL
);
CREATE INDEX quotes_of_option ON quotes (option_id, valid_until_ms);

CREATE TABLE hints (                               -- hashes told by a wallet in a confirm
    payment_id TEXT NOT NULL,
    option_id TEXT NOT NULL,                       -- '' for every option that was not handed out for the payment
    hash TEXT NOT NULL,
    told_at_ms INTEGER NOT NULL,
    PRIMARY KEY (payment_id, option_id, hash)
) WITHOUT ROWID;

CREATE TABLE transfers (                           -- what a chain showed, whether or not it paid for something
    seq INTEGER PRIMARY KEY,
    account_id TEXT,
    payment_id TEXT,
    chain TEXT NOT NULL,
    tx_id TEXT NOT NULL,
    log_index INTEGER NOT NULL,
    asset TEXT NOT NULL,
    value TEXT NOT NULL,
    sender TEXT NOT NULL,
    recipient TEXT NOT NULL,
    kind TEXT NOT NULL,                            -- matched | late | partial | surplus | unmatched
    seen_at_ms INTEGER NOT NULL,
    UNIQUE (chain, tx_id, log_index)
);
CREATE INDEX transfers_of_payment ON transfers (payment_id, seq);
CREATE INDEX transfers_of_account ON transfers (account_id, seq);

CREATE TABLE refunds (
    payment_id TEXT PRIMARY KEY,
    tx_id TEXT,
    note TEXT,
    created_at_ms INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE events (
    seq INTEGER PRIMARY KEY,                       -- the account feed's cursor
    id TEXT NOT NULL UNIQUE,
    account_id TEXT NOT NULL,
    payment_id TEXT NOT NULL,
    version INTEGER NOT NULL,
    type TEXT NOT NULL,
    created_at_ms INTEGER NOT NULL,
    body BLOB NOT NULL,                            -- the envelope's bytes, frozen
    UNIQUE (payment_id, version)
);
CREATE INDEX events_of_account ON events (account_id, seq);
CREATE INDEX events_by_type ON events (account_id, type, seq);

CREATE TABLE endpoints (
    id TEXT PRIMARY KEY,
    account_id TEXT NOT NULL,
    url TEXT NOT NULL,
    events TEXT NOT NULL,                          -- space-separated event types
    state TEXT NOT NULL,                           -- enabled | disabled | deleted
    failing_since_ms INTEGER,
    last_failure_at_ms INTEGER,
    last_success_at_ms INTEGER,
    created_at_ms INTEGER NOT NULL,
    updated_at_ms INTEGER NOT NULL
);
CREATE UNIQUE INDEX endpoint_of_account ON endpoints (account_id) WHERE state <> 'deleted';

CREATE TABLE endpoint_secrets (
    seq INTEGER PRIMARY KEY,
    endpoint_id TEXT NOT NULL,
    sealed BLOB NOT NULL,
    created_at_ms INTEGER NOT NULL,
    expires_at_ms INTEGER                          -- NULL: the current one
);
CREATE INDEX secrets_of_endpoint ON endpoint_secrets (endpoint_id);

CREATE TABLE deliveries (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    message_id TEXT NOT NULL,                      -- webhook-id: stable for (event, endpoint)
    account_id TEXT NOT NULL,
    endpoint_id TEXT NOT NULL,
    event_seq INTEGER,                             -- NULL: a test event, whose bytes are in `body`
    event_type TEXT NOT NULL,
    payment_id TEXT,
    body BLOB,
    kind TEXT NOT NULL,                            -- event | test
    state TEXT NOT NULL,                           -- pending | succeeded | failed | cancelled
    reason TEXT,                                   -- why cancelled
    attempts INTEGER NOT NULL DEFAULT 0,           -- automatic ones that ended
    priority INTEGER NOT NULL DEFAULT 0,           -- 0 fresh, 1 retry, 2 replay
    last_status INTEGER,
    next_at_ms INTEGER,                            -- NULL unless pending
    created_at_ms INTEGER NOT NULL
);
CREATE UNIQUE INDEX delivery_of_event ON deliveries (event_seq, endpoint_id) WHERE event_seq IS NOT NULL;
CREATE INDEX deliveries_due ON deliveries (endpoint_id, priority, next_at_ms) WHERE state = 'pending';
CREATE INDEX deliveries_next ON deliveries (next_at_ms) WHERE state = 'pending';
CREATE INDEX deliveries_of_account ON deliveries (account_id, seq);
CREATE INDEX deliveries_by_state ON deliveries (account_id, state, seq);

CREATE TABLE attempts (
    seq INTEGER PRIMARY KEY,
    delivery_id TEXT NOT NULL,
    n INTEGER NOT NULL,
    trigger TEXT NOT NULL,                         -- auto | manual | replay | test
    at_ms INTEGER NOT NULL,
    status INTEGER,
    error_class TEXT,
    duration_ms INTEGER NOT NULL,
    remote_ip TEXT,
    body BLOB
);
CREATE INDEX attempts_of_delivery ON attempts (delivery_id, seq);

CREATE TABLE webhook_jobs (
    id TEXT PRIMARY KEY,
    account_id TEXT NOT NULL,
    endpoint_id TEXT NOT NULL,
    kind TEXT NOT NULL,                            -- recover | replay-missing
    since_ms INTEGER NOT NULL,
    until_ms INTEGER NOT NULL,
    state TEXT NOT NULL,                           -- running | done | cancelled
    cursor_seq INTEGER NOT NULL DEFAULT 0,
    matched INTEGER NOT NULL DEFAULT 0,
    queued INTEGER NOT NULL DEFAULT 0,
    created_at_ms INTEGER NOT NULL
);
CREATE TABLE webhook_job_deliveries (
    job_id TEXT NOT NULL,
    delivery_id TEXT NOT NULL,
    PRIMARY KEY (job_id, delivery_id)
) WITHOUT ROWID;

CREATE TABLE idempotency (
    account_id TEXT NOT NULL,
    scope BLOB NOT NULL,                           -- SHA-256 of (method, path, merchant, key)
    fingerprint BLOB NOT NULL,                     -- SHA-256 of the canonical body
    status INTEGER NOT NULL,
    body BLOB NOT NULL,
    request_id TEXT NOT NULL,
    created_at_ms INTEGER NOT NULL,
    PRIMARY KEY (account_id, scope)
) WITHOUT ROWID;
CREATE INDEX idempotency_age ON idempotency (created_at_ms);

CREATE TABLE audit (
    seq INTEGER PRIMARY KEY,
    at_ms INTEGER NOT NULL,
    account_id TEXT,
    actor TEXT NOT NULL,                           -- key id, "cli", "server"
    act TEXT NOT NULL,
    subject TEXT NOT NULL,
    details TEXT NOT NULL                          -- JSON
);
