-- What buyers pay the fee of is forgotten after a day: found without reading all that we paid for, which stays.
CREATE INDEX builds_own ON builds (chain, created_at_ms) WHERE tx_id IS NULL;
