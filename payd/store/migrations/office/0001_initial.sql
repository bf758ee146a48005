-- The office: people and accounts. Money and merchants live in the realms.

CREATE TABLE accounts (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    api_version TEXT NOT NULL,                     -- pinned at creation
    created_at_ms INTEGER NOT NULL
);
