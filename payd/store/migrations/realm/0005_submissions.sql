-- Chains whose transactions are signed by the buyer and sent by us, or built by us for the buyer's wallet.

CREATE TABLE submissions (                         -- what is to be brought to its chain as it is, one a payment
    seq INTEGER PRIMARY KEY,
    payment_id TEXT NOT NULL UNIQUE,
    chain TEXT NOT NULL,
    buyer TEXT NOT NULL,
    tx_id TEXT NOT NULL,
    raw BLOB NOT NULL,
    valid_until_height INTEGER NOT NULL,
    state TEXT NOT NULL,                           -- open | landed | dead
    left_us INTEGER NOT NULL DEFAULT 0,            -- whether it was ever sent, or was about to be
    reason TEXT,
    created_at_ms INTEGER NOT NULL,
    sent_at_ms INTEGER,
    UNIQUE (chain, tx_id)
);
CREATE INDEX submissions_of_chain ON submissions (chain, state, seq);

CREATE TABLE builds (                              -- transactions that were built for a wallet to sign
    message_hash BLOB PRIMARY KEY,                 -- SHA-256 of the message
    payment_id TEXT NOT NULL,
    chain TEXT NOT NULL,
    buyer TEXT NOT NULL,
    valid_until_height INTEGER NOT NULL,
    created_at_ms INTEGER NOT NULL,
    tx_id TEXT,                                    -- where we signed first, and so know it; NULL: the buyer pays the fee
    cost INTEGER NOT NULL DEFAULT 0,               -- what it costs us at most if it lands, smallest units; then what it did
    state TEXT NOT NULL,                           -- out | landed | void; of what costs us nothing always out
    opens TEXT,                                    -- the account that it creates where nobody did before
    rent INTEGER NOT NULL DEFAULT 0                -- what of the cost that takes; one of several pays it
) WITHOUT ROWID;
CREATE INDEX builds_we_pay ON builds (chain, state, created_at_ms) WHERE tx_id IS NOT NULL;
CREATE INDEX builds_of_buyer ON builds (chain, buyer, created_at_ms) WHERE tx_id IS NOT NULL;
CREATE INDEX builds_by_date ON builds (chain, created_at_ms);
CREATE INDEX builds_of_payment ON builds (payment_id);

CREATE TABLE chain_accounts (                      -- of chains that are read by account: how far each was listed
    chain TEXT NOT NULL,
    address TEXT NOT NULL,
    kind TEXT NOT NULL,                            -- head | final, as in chain_cursors
    tx_id TEXT NOT NULL,                           -- everything up to this transaction was read and is final
    slot INTEGER NOT NULL,
    PRIMARY KEY (chain, address, kind)
) WITHOUT ROWID;
