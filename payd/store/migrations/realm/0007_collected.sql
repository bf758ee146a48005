-- What merchants ask of their buyers, and what these answered.

ALTER TABLE merchants ADD COLUMN collect BLOB NOT NULL DEFAULT '[]';  -- core.collect.Field[], JSON

CREATE TABLE collected (
    seq INTEGER PRIMARY KEY,
    payment_id TEXT NOT NULL,
    holder TEXT NOT NULL,                          -- whose answers: namespace and address, canonical
    sealed BLOB NOT NULL,                          -- core.collect.Answered[], JSON, sealed for this payment and holder
    collected_at_ms INTEGER NOT NULL,
    of_buyer INTEGER NOT NULL DEFAULT 0,           -- 1 once the payment was paid by the holder
    UNIQUE (payment_id, holder)
);
CREATE INDEX collected_open ON collected (seq) WHERE of_buyer = 0;
CREATE INDEX collected_by_date ON collected (collected_at_ms);
