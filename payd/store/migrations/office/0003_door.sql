-- What people show at the dashboard's door, the links that let them in once, and who tried.
-- Times are Unix milliseconds by the wall.

CREATE TABLE passkeys (
    id TEXT PRIMARY KEY,
    user_id TEXT NOT NULL,
    credential_id BLOB NOT NULL UNIQUE,
    public_key BLOB NOT NULL,                      -- COSE
    sign_count INTEGER NOT NULL,
    name TEXT NOT NULL,
    created_at_ms INTEGER NOT NULL,
    used_at_ms INTEGER
);
CREATE INDEX passkeys_of_user ON passkeys (user_id, created_at_ms);

CREATE TABLE recovery_codes (
    user_id TEXT NOT NULL,
    hash BLOB NOT NULL,                            -- SHA-256 of user id and code
    used_at_ms INTEGER,
    PRIMARY KEY (user_id, hash)
) WITHOUT ROWID;

CREATE TABLE links (                               -- each opens once: the first setup, an invitation, a new password
    id TEXT PRIMARY KEY,
    token_hash BLOB NOT NULL UNIQUE,               -- SHA-256
    purpose TEXT NOT NULL,                         -- setup, invite, reset
    account_id TEXT,
    user_id TEXT,                                  -- whose password; NULL but for reset
    role TEXT,
    email TEXT,                                    -- who is meant; NULL for whoever has the link
    created_by TEXT NOT NULL,
    created_at_ms INTEGER NOT NULL,
    expires_at_ms INTEGER NOT NULL,
    used_at_ms INTEGER
);
CREATE INDEX links_of_account ON links (account_id, created_at_ms);
CREATE INDEX links_by_end ON links (expires_at_ms);

CREATE TABLE sign_ins (
    seq INTEGER PRIMARY KEY,
    at_ms INTEGER NOT NULL,
    user_id TEXT,                                  -- NULL where nobody has the e-mail
    email TEXT NOT NULL,
    way TEXT NOT NULL,                             -- password, code, recovery, passkey, link
    outcome TEXT NOT NULL,                         -- in, next, refused
    ip TEXT NOT NULL,
    user_agent TEXT NOT NULL
);
CREATE INDEX sign_ins_of_user ON sign_ins (user_id, seq);
CREATE INDEX sign_ins_by_date ON sign_ins (at_ms);

CREATE TABLE tries (                               -- how often somebody failed lately
    who TEXT PRIMARY KEY,                          -- hash of an e-mail, an address, a user's code, a known browser
    count INTEGER NOT NULL,
    last_at_ms INTEGER NOT NULL
);
CREATE INDEX tries_by_date ON tries (last_at_ms);

CREATE TABLE challenges (                          -- answered by a passkey: none is taken twice
    hash BLOB PRIMARY KEY,
    expires_at_ms INTEGER NOT NULL
);
CREATE INDEX challenges_by_end ON challenges (expires_at_ms);
