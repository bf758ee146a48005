-- Faults that developers have payd make on purpose: which, for how long, and what each touched.

ALTER TABLE attempts ADD COLUMN fault TEXT;        -- what was done to it on purpose; NULL: nothing

CREATE TABLE faults (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    endpoint_id TEXT NOT NULL,
    kind TEXT NOT NULL,                            -- core/fault.py has what each does
    delay_ms INTEGER,
    events TEXT NOT NULL,                          -- space-separated; '': all
    payment_id TEXT,                               -- NULL: any
    deliveries INTEGER,                            -- how many it was to touch; NULL: all until until_ms
    "left" INTEGER,
    until_ms INTEGER,
    created_at_ms INTEGER NOT NULL,
    injected INTEGER NOT NULL DEFAULT 0,
    held TEXT,                                     -- the delivery that is held back now
    ended_at_ms INTEGER                            -- by a person
);
CREATE INDEX faults_of_endpoint ON faults (endpoint_id, seq);

CREATE TABLE fault_uses (                          -- what a fault touched, so that a crash neither repeats nor forgets it
    fault_id TEXT NOT NULL,
    delivery_id TEXT NOT NULL,
    open INTEGER NOT NULL,                         -- 1 until the attempt is logged
    PRIMARY KEY (fault_id, delivery_id)
) WITHOUT ROWID;
CREATE INDEX fault_uses_of_delivery ON fault_uses (delivery_id);
