-- Changes of destinations that are held back, and what keeps a deletion from being a way around that.
-- Times are Unix milliseconds of the realm.

CREATE TABLE settlement_changes (                  -- one a settlement: a later one takes its place
    settlement_id TEXT PRIMARY KEY,
    merchant_id TEXT NOT NULL,
    account_id TEXT NOT NULL,
    destination TEXT NOT NULL,                     -- where the money goes from due_at_ms on
    actor TEXT NOT NULL,                           -- who asked for it
    asked_at_ms INTEGER NOT NULL,
    due_at_ms INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX settlement_changes_due ON settlement_changes (due_at_ms);
CREATE INDEX settlement_changes_of_account ON settlement_changes (account_id, due_at_ms);
CREATE INDEX settlement_changes_of_merchant ON settlement_changes (merchant_id);

CREATE TABLE vacancies (                           -- assets whose destination was deleted lately
    merchant_id TEXT NOT NULL,
    asset_key TEXT NOT NULL,                       -- canonical
    destination TEXT NOT NULL,                     -- the only one that can be registered again until then
    until_ms INTEGER NOT NULL,
    PRIMARY KEY (merchant_id, asset_key)
) WITHOUT ROWID;
