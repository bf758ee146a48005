-- Live chains: how far each was read, what binds transfers to payments, and what the relayer owes and sent.
-- Chains are CAIP-2, assets CAIP-19, accounts CAIP-10, all canonical. Block times are Unix seconds of the chain.

CREATE TABLE chain_cursors (
    chain TEXT NOT NULL,
    kind TEXT NOT NULL,                            -- head: read up to here; final: read again up to here, once final
    number INTEGER NOT NULL,
    hash TEXT NOT NULL,
    time_s INTEGER NOT NULL,
    PRIMARY KEY (chain, kind)
) WITHOUT ROWID;

CREATE TABLE chain_blocks (                        -- the newest blocks that were read, to find where a reorg begins
    chain TEXT NOT NULL,
    number INTEGER NOT NULL,
    hash TEXT NOT NULL,
    PRIMARY KEY (chain, number)
) WITHOUT ROWID;

CREATE TABLE watches (                             -- what a transfer carries, and the payment that it is then for
    binding BLOB NOT NULL,                         -- 32 bytes: a tag, or the nonce of an authorization
    asset_key TEXT NOT NULL,
    payment_id TEXT NOT NULL,
    chain TEXT NOT NULL,
    destination TEXT NOT NULL,
    until_ms INTEGER NOT NULL,                     -- when the payment's window closes
    PRIMARY KEY (binding, asset_key)
) WITHOUT ROWID;
CREATE INDEX watches_of_chain ON watches (chain, until_ms);
CREATE INDEX watches_of_payment ON watches (payment_id);

ALTER TABLE quotes ADD COLUMN due TEXT;               -- what of the amount reaches the destination; NULL: all of it

ALTER TABLE transfers ADD COLUMN block_number INTEGER;
ALTER TABLE transfers ADD COLUMN block_hash TEXT;   -- NULL: of no real chain, or taken by a reorg and not seen again
ALTER TABLE transfers ADD COLUMN block_time_s INTEGER;
ALTER TABLE transfers ADD COLUMN awaits TEXT;       -- depth | final; NULL: nothing more is to come
ALTER TABLE transfers ADD COLUMN look_at INTEGER;   -- the head at which it is looked at again, while it awaits depth
CREATE INDEX transfers_awaiting ON transfers (chain, awaits, look_at) WHERE awaits IS NOT NULL;
CREATE INDEX transfers_of_block ON transfers (chain, block_number) WHERE block_number IS NOT NULL;

CREATE TABLE relay_jobs (                          -- a call that the relayer owes a payment
    seq INTEGER PRIMARY KEY,
    payment_id TEXT NOT NULL UNIQUE,
    chain TEXT NOT NULL,
    buyer TEXT NOT NULL,
    target TEXT NOT NULL,                          -- the contract that is called
    data BLOB NOT NULL,
    valid_until_s INTEGER NOT NULL,                -- in chain time: later it can not land
    state TEXT NOT NULL,                           -- queued | sent | landed | dead
    left_us INTEGER NOT NULL DEFAULT 0,            -- whether it was ever broadcast, and may land by anyone's hand
    tries INTEGER NOT NULL DEFAULT 0,
    next_try_at_ms INTEGER NOT NULL DEFAULT 0,
    reason TEXT,
    created_at_ms INTEGER NOT NULL
);
CREATE INDEX jobs_of_chain ON relay_jobs (chain, state, seq);
CREATE INDEX jobs_of_buyer ON relay_jobs (chain, buyer, created_at_ms);

CREATE TABLE relay_transactions (                  -- one nonce each; stored with its first attempt before that is sent
    seq INTEGER PRIMARY KEY,
    job_seq INTEGER NOT NULL,
    chain TEXT NOT NULL,
    sender TEXT NOT NULL,
    nonce INTEGER NOT NULL,
    gas INTEGER NOT NULL,
    state TEXT NOT NULL,                           -- open | mined | lost
    block_number INTEGER,
    status INTEGER,
    spent TEXT,                                    -- smallest units of the native coin, once mined
    created_at_ms INTEGER NOT NULL,
    UNIQUE (chain, sender, nonce, seq)
);
CREATE INDEX relay_open ON relay_transactions (chain, sender, nonce) WHERE state = 'open';
CREATE INDEX relay_of_job ON relay_transactions (job_seq);
CREATE INDEX relay_by_date ON relay_transactions (chain, created_at_ms);

CREATE TABLE relay_attempts (                      -- every signed form of a transaction: any of them may be mined
    hash TEXT PRIMARY KEY,
    transaction_seq INTEGER NOT NULL,
    raw BLOB NOT NULL,
    max_fee TEXT NOT NULL,                         -- smallest units of the native coin for a unit of gas
    tip TEXT NOT NULL,
    made_at_ms INTEGER NOT NULL,
    sent_at_ms INTEGER
) WITHOUT ROWID;
CREATE INDEX attempts_of_transaction ON relay_attempts (transaction_seq);
