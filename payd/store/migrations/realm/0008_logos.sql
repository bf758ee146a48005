-- The logos of merchants: what is shown, and what is still to be copied from where.

CREATE TABLE logos (
    merchant_id TEXT PRIMARY KEY,
    version INTEGER NOT NULL DEFAULT 1,            -- grows with each wish, so that an old copy comes too late
    source_url TEXT,                               -- the merchant's iconUrl; NULL: the logo was sent to us
    due_at_ms INTEGER,                             -- real time of the next try to copy it; NULL: nothing is to be done
    failures INTEGER NOT NULL DEFAULT 0,           -- tries in a row that failed
    problem TEXT,                                  -- why the last one did, in words
    digest TEXT,                                   -- of the picture; NULL while there is none
    picture BLOB                                   -- WebP, as core/picture.py bounds it
);
CREATE INDEX logos_due ON logos (due_at_ms) WHERE due_at_ms IS NOT NULL;
CREATE INDEX logos_digest ON logos (digest) WHERE digest IS NOT NULL;

INSERT INTO logos (merchant_id, source_url, due_at_ms)
SELECT id, icon_url, 0 FROM merchants WHERE icon_url IS NOT NULL AND deleted_at_ms IS NULL;
