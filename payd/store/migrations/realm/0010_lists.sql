-- Lists that few of many rows pass are answered by an index alone.

-- What a filter asks for is in the index. The state of a delivery changes, and is in one of them only.
DROP INDEX deliveries_of_account;
CREATE INDEX deliveries_of_account ON deliveries (account_id, seq, event_type, endpoint_id, created_at_ms);
DROP INDEX deliveries_by_state;
CREATE INDEX deliveries_by_state ON deliveries (account_id, state, seq, event_type, endpoint_id, created_at_ms);

CREATE INDEX transfers_unpaid ON transfers (account_id, seq) WHERE kind <> 'matched';
