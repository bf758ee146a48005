-- What the dashboard looks for and counts, and the log of requests.

-- Who paid, and by what: looked up, never shown. Addresses in lower case, without their chain.
ALTER TABLE payments ADD COLUMN buyer_address TEXT;
ALTER TABLE payments ADD COLUMN tx_id TEXT;
UPDATE payments SET
    buyer_address = (
        WITH paid (buyer) AS (SELECT unpacked(body) ->> '$.processing.buyer'),
        rest (text) AS (SELECT substr(buyer, instr(buyer, ':') + 1) FROM paid)
        SELECT lower(substr(text, instr(text, ':') + 1)) FROM rest
    ),
    tx_id = unpacked(body) ->> '$.success.tx_id'
WHERE asset IS NOT NULL;
CREATE INDEX payments_by_buyer ON payments (account_id, buyer_address, created_at_ms, seq) WHERE buyer_address IS NOT NULL;
CREATE INDEX payments_by_tx ON payments (tx_id) WHERE tx_id IS NOT NULL;

-- A filter that few of many pass is answered by the index alone: rows, with their bodies, are many times as much to read.
DROP INDEX payments_by_date;
CREATE INDEX payments_by_date ON payments (
    account_id, created_at_ms, seq, status, merchant_id, currency, asset, network, reference_id
);

ALTER TABLE transfers ADD COLUMN sender_address TEXT GENERATED ALWAYS AS (
    lower(substr(sender, instr(sender, ':') + 1 + instr(substr(sender, instr(sender, ':') + 1), ':')))
) VIRTUAL;
CREATE INDEX transfers_by_sender ON transfers (account_id, sender_address, seq);
CREATE INDEX transfers_by_tx ON transfers (tx_id);
CREATE INDEX transfers_astray ON transfers (account_id, kind, seq) WHERE kind <> 'matched';
CREATE INDEX hints_by_hash ON hints (hash);
CREATE INDEX submissions_by_tx ON submissions (tx_id);
CREATE INDEX refunds_by_tx ON refunds (tx_id) WHERE tx_id IS NOT NULL;

-- Who did what: by account for the audit, by subject for one payment's history.
CREATE INDEX IF NOT EXISTS audit_of_account ON audit (account_id, seq);
CREATE INDEX IF NOT EXISTS audit_of_subject ON audit (subject, seq);

CREATE TABLE tallies (                             -- what payments came to, by the quarter of an hour in which they did
    account_id TEXT NOT NULL,
    at_ms INTEGER NOT NULL,                        -- its beginning
    what TEXT NOT NULL,                            -- succeeded | failed | expired | cancelled | took
    name TEXT NOT NULL,                            -- currency | reason | '' | reason | seconds, as core/tally.py rounds them
    count INTEGER NOT NULL,
    value_e9 INTEGER NOT NULL,                     -- minor units, in billions: what they add up to can be too large for one
    value_rest INTEGER NOT NULL,                   -- the rest of them
    PRIMARY KEY (account_id, at_ms, what, name)
) WITHOUT ROWID;
INSERT INTO tallies (account_id, at_ms, what, name, count, value_e9, value_rest)
WITH read (account_id, status, currency, value, created_at_ms, body) AS MATERIALIZED (
    SELECT account_id, status, currency, value, created_at_ms, unpacked(body) FROM payments
    WHERE status IN ('succeeded', 'failed', 'expired', 'cancelled')
), ended (account_id, status, at_ms, took_s, currency, reason, value) AS MATERIALIZED (
    SELECT account_id, status,
        coalesce(body ->> '$.success.succeeded_at_ms', body ->> '$.failed.failed_at_ms',
            body ->> '$.expired.expired_at_ms', body ->> '$.cancelled.cancelled_at_ms'),
        max(0, (body ->> '$.success.succeeded_at_ms') - created_at_ms) / 1000,
        currency,
        substr(coalesce(body ->> '$.failed.reason', body ->> '$.cancelled.reason', ''), 1, 120),
        value
    FROM read
), counted (account_id, at_ms, what, name, value) AS (
    SELECT account_id, at_ms, status, iif(status = 'succeeded', currency, reason), iif(status = 'succeeded', value, 0)
    FROM ended
    UNION ALL
    SELECT account_id, at_ms, 'took', CASE
        WHEN took_s < 16 THEN took_s
        WHEN took_s < 32 THEN took_s / 2 * 2
        WHEN took_s < 64 THEN took_s / 4 * 4
        WHEN took_s < 128 THEN took_s / 8 * 8
        WHEN took_s < 256 THEN took_s / 16 * 16
        WHEN took_s < 512 THEN took_s / 32 * 32
        WHEN took_s < 1024 THEN took_s / 64 * 64
        WHEN took_s < 2048 THEN took_s / 128 * 128
        WHEN took_s < 4096 THEN took_s / 256 * 256
        ELSE 4096
    END, 0
    FROM ended WHERE status = 'succeeded'
)
SELECT account_id, at_ms / 900000 * 900000, what, name, count(*), sum(value / 1000000000), sum(value % 1000000000)
FROM counted GROUP BY 1, 2, 3, 4;

CREATE TABLE api_log (                             -- requests with a credential of an account; never what a success said
    seq INTEGER PRIMARY KEY,
    at_ms INTEGER NOT NULL,
    account_id TEXT NOT NULL,
    actor TEXT NOT NULL,                           -- the key's or app's id
    request_id TEXT NOT NULL,
    method TEXT NOT NULL,
    route TEXT NOT NULL,                           -- the path's template
    subject TEXT NOT NULL,                         -- the id in the path, or ''
    status INTEGER NOT NULL,
    took_ms INTEGER NOT NULL,
    error BLOB                                     -- the refusal's body, at most 2 KiB; NULL of a success
);
CREATE INDEX api_log_of_account ON api_log (account_id, seq);
CREATE INDEX api_log_refused ON api_log (account_id, seq) WHERE status >= 400;
CREATE INDEX api_log_request ON api_log (request_id);
