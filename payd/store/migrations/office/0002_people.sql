-- People who sign in to the dashboard, what they may do in which account, and what they did there.
-- Times are Unix milliseconds by the wall. Tokens are stored as their SHA-256.

CREATE TABLE users (
    id TEXT PRIMARY KEY,
    email TEXT NOT NULL UNIQUE,                    -- lower case
    password_hash TEXT NOT NULL,                   -- Argon2id with its parameters
    password_set_at_ms INTEGER NOT NULL,
    totp_sealed BLOB,                              -- sealed for the user; NULL without an authenticator app
    totp_step INTEGER NOT NULL DEFAULT 0,          -- the newest step whose code was used: none is taken twice
    created_at_ms INTEGER NOT NULL
);

CREATE TABLE memberships (
    account_id TEXT NOT NULL,
    user_id TEXT NOT NULL,
    role TEXT NOT NULL,
    created_at_ms INTEGER NOT NULL,
    PRIMARY KEY (account_id, user_id)
);
CREATE INDEX memberships_of_user ON memberships (user_id, created_at_ms);

CREATE TABLE sessions (
    id TEXT PRIMARY KEY,
    token_hash BLOB NOT NULL UNIQUE,
    user_id TEXT NOT NULL,
    account_id TEXT NOT NULL,                      -- whose data it shows now
    mode TEXT NOT NULL,                            -- where it was last, for links from pages of no mode
    created_at_ms INTEGER NOT NULL,
    seen_at_ms INTEGER NOT NULL,
    proved_at_ms INTEGER NOT NULL,                 -- when the user last showed who it is
    ip TEXT NOT NULL,
    user_agent TEXT NOT NULL
);
CREATE INDEX sessions_of_user ON sessions (user_id, seen_at_ms);
CREATE INDEX sessions_by_age ON sessions (created_at_ms);

CREATE TABLE audit (
    seq INTEGER PRIMARY KEY,
    at_ms INTEGER NOT NULL,
    account_id TEXT,
    actor TEXT NOT NULL,
    act TEXT NOT NULL,
    subject TEXT NOT NULL,
    details TEXT NOT NULL
);
CREATE INDEX audit_of_account ON audit (account_id, seq);
