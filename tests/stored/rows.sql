-- Rows that a shop in test mode does not make by itself, as they can be inserted from a schema version on.
-- {payment}, {account}, {merchant}, {user} and {now} stand for what the rest of the database has.

-- from realm 1
INSERT INTO transfers (account_id, payment_id, chain, tx_id, log_index, asset, value, sender, recipient, kind, seen_at_ms)
VALUES ('{account}', NULL, 'eip155:8453', '0xabababababababababababababababababababababababababababababababab', 3, 'eip155:8453/erc20:0x833589fcd6edb6e08f4c7c32d4f71b54bda02913', '5000', 'eip155:8453:0x3c44cdddb6a900fa2b585dd299e03d12fa4293bc', 'eip155:8453:0x70997970c51812dc3a010c7d01b50e0d17dc79c8', 'unmatched', {now});
INSERT OR IGNORE INTO refunds (payment_id, tx_id, note, created_at_ms)
VALUES ('{payment}', '0xabababababababababababababababababababababababababababababababab', 'broken on arrival', {now});
INSERT INTO hints (payment_id, option_id, hash, told_at_ms)
VALUES ('{payment}', '', '0xabababababababababababababababababababababababababababababababab', {now});
INSERT INTO webhook_jobs (id, account_id, endpoint_id, kind, since_ms, until_ms, state, matched, created_at_ms)
SELECT 'job_stored', account_id, id, 'recover', {now} - 1000, {now}, 'done', 1, {now} FROM endpoints WHERE account_id = '{account}' LIMIT 1;
INSERT INTO webhook_job_deliveries (job_id, delivery_id)
SELECT 'job_stored', id FROM deliveries LIMIT 1;
INSERT INTO endpoints (id, account_id, url, events, state, created_at_ms, updated_at_ms)
VALUES ('ep_gone', '{account}', 'https://gone.example/hook', '*', 'deleted', {now}, {now});
INSERT INTO endpoint_secrets (endpoint_id, sealed, created_at_ms)
VALUES ('ep_gone', {sealed_gone}, {now});
INSERT INTO endpoint_secrets (endpoint_id, sealed, created_at_ms, expires_at_ms)
SELECT endpoint_id, sealed, created_at_ms, {now} FROM endpoint_secrets
WHERE expires_at_ms IS NULL AND endpoint_id LIKE 'ep\_%' ESCAPE '\' AND endpoint_id <> 'ep_gone' LIMIT 1;

-- from realm 3
INSERT INTO chain_cursors
VALUES ('eip155:8453', 'head', 120, '0x78', 1780000000);
INSERT INTO chain_cursors
VALUES ('eip155:8453', 'final', 100, '0x64', 1779999960);
INSERT INTO chain_blocks
VALUES ('eip155:8453', 120, '0x78');
INSERT INTO watches
VALUES (zeroblob(32), 'eip155:8453/erc20:0x833589fcd6edb6e08f4c7c32d4f71b54bda02913', '{payment}', 'eip155:8453', 'eip155:8453:0x70997970c51812dc3a010c7d01b50e0d17dc79c8', {now});
INSERT INTO relay_jobs (payment_id, chain, buyer, target, data, valid_until_s, state, left_us, created_at_ms)
VALUES ('{payment}', 'eip155:8453', 'eip155:8453:0x3c44cdddb6a900fa2b585dd299e03d12fa4293bc', 'eip155:8453:0x70997970c51812dc3a010c7d01b50e0d17dc79c8', x'00', 1780000000, 'landed', 1, {now});
INSERT INTO relay_transactions (job_seq, chain, sender, nonce, gas, state, block_number, status, spent, created_at_ms)
SELECT seq, chain, 'eip155:8453:0x70997970c51812dc3a010c7d01b50e0d17dc79c8', 6, 60000, 'mined', 119, 1, '2100', {now} FROM relay_jobs;
INSERT INTO relay_transactions (job_seq, chain, sender, nonce, gas, state, block_number, status, spent, created_at_ms)
VALUES (0, 'eip155:8453', 'eip155:8453:0x70997970c51812dc3a010c7d01b50e0d17dc79c8', 7, 21000, 'mined', 120, 1, '2100', {now});
INSERT INTO relay_attempts (hash, transaction_seq, raw, max_fee, tip, made_at_ms, sent_at_ms)
SELECT '0xabababababababababababababababababababababababababababababababab' || seq, seq, x'02', '10', '1', {now}, {now} FROM relay_transactions;

-- from realm 5
INSERT INTO submissions (payment_id, chain, buyer, tx_id, raw, valid_until_height, state, created_at_ms)
VALUES ('{payment}', 'solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp', 'solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp:buyer', 'sig', x'01', 10, 'landed', {now});
INSERT INTO builds (message_hash, payment_id, chain, buyer, valid_until_height, created_at_ms, tx_id, cost, state)
VALUES (zeroblob(32), '{payment}', 'solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp', 'solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp:buyer', 10, {now}, 'sig', 5000, 'landed');
INSERT INTO chain_accounts
VALUES ('solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp', 'shop', 'head', 'sig', 10);

-- from realm 6
INSERT INTO checkout_origins
VALUES ('{merchant}', 0, 'https://shop.example');

-- from realm 7
INSERT INTO collected (payment_id, holder, sealed, collected_at_ms, of_buyer)
VALUES ('{payment}', '{holder}', {sealed_answers}, {now}, 1);

-- from realm 8
INSERT OR REPLACE INTO logos (merchant_id, version, digest, picture)
VALUES ('{merchant}', 1, 'digest', x'52494646');

-- from office 2
INSERT INTO users (id, email, password_hash, password_set_at_ms, totp_sealed, totp_step, created_at_ms)
VALUES ('{user}', 'ada@example.com', 'no hash', {now}, {sealed_app}, 7, {now});
INSERT INTO memberships
VALUES ('{account}', '{user}', 'owner', {now});
INSERT INTO sessions
VALUES ('ses_stored', zeroblob(32), '{user}', '{account}', 'test', {now}, {now}, {now}, '192.0.2.1', 'a browser');
INSERT INTO audit (at_ms, account_id, actor, act, subject, details)
VALUES ({now}, '{account}', '{user}', 'member.join', '{user}', '{{}}');

-- from office 3
INSERT INTO passkeys
VALUES ('psk_stored', '{user}', x'0a', x'0b', 3, 'A key', {now}, NULL);
INSERT INTO recovery_codes
VALUES ('{user}', zeroblob(32), NULL);
INSERT INTO links
VALUES ('lnk_stored', zeroblob(32), 'invite', '{account}', NULL, 'viewer', 'bob@example.com', '{user}', {now}, {now}, NULL);
INSERT INTO sign_ins (at_ms, user_id, email, way, outcome, ip, user_agent)
VALUES ({now}, '{user}', 'ada@example.com', 'password', 'in', '192.0.2.1', 'a browser');
INSERT INTO tries
VALUES ('somebody', 2, {now});
INSERT INTO challenges
VALUES (zeroblob(32), {now});
-- from realm 11
INSERT INTO settlement_changes
SELECT id, merchant_id, '{account}', destination, 'cli', {now}, {now} + 315360000000 FROM settlements LIMIT 1;
INSERT INTO vacancies VALUES ('{merchant}', 'eip155:8453/slip44:60', 'eip155:8453:0x01', {now});
-- from realm 12
INSERT INTO faults (id, endpoint_id, kind, events, deliveries, "left", created_at_ms)
SELECT 'flt_stored', id, 'duplicate', '', 3, 2, {now} FROM endpoints LIMIT 1;
INSERT INTO fault_uses VALUES ('flt_stored', 'dlv_stored', 0);
-- from realm 13
INSERT INTO refunds_out VALUES ('{payment}', '{payment}', 300000150, {now});
