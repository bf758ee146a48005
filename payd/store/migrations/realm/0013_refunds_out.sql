-- Refunds that wallets signed and that were brought to their chain: while one may land, no second one goes there.

CREATE TABLE refunds_out (                         -- one a payment
    payment_id TEXT PRIMARY KEY,
    tx_id TEXT NOT NULL,
    valid_until INTEGER NOT NULL,                  -- the last block height at which it can land
    brought_at_ms INTEGER NOT NULL
) WITHOUT ROWID;
