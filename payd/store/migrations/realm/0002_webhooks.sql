-- Webhooks: endpoints that pause, warn and add headers; the whole attempt log; replay jobs that can be cancelled.

ALTER TABLE endpoints ADD COLUMN headers BLOB;                        -- a JSON object, sealed; NULL: none
ALTER TABLE endpoints ADD COLUMN header_names TEXT NOT NULL DEFAULT '';  -- space-separated
ALTER TABLE endpoints ADD COLUMN off_since_ms INTEGER;                -- since when paused or disabled
ALTER TABLE endpoints ADD COLUMN warnings INTEGER NOT NULL DEFAULT 0; -- given in this failing time

ALTER TABLE attempts ADD COLUMN error TEXT;                           -- what happened, in words
ALTER TABLE attempts ADD COLUMN headers BLOB;                         -- of the answer, as lines
ALTER TABLE attempts ADD COLUMN truncated INTEGER NOT NULL DEFAULT 0; -- whether `body` is not all of it
ALTER TABLE attempts ADD COLUMN dns_ms INTEGER;
ALTER TABLE attempts ADD COLUMN connect_ms INTEGER;
ALTER TABLE attempts ADD COLUMN tls_ms INTEGER;
ALTER TABLE attempts ADD COLUMN total_ms INTEGER;                     -- with the body; duration_ms is up to the status
ALTER TABLE attempts ADD COLUMN retry_after_s INTEGER;                -- what the receiver asked for
ALTER TABLE attempts ADD COLUMN next_at_ms INTEGER;                   -- when the next one was due after it

-- When something is due is asked of one endpoint at a time, so that a paused one counts for nothing.
DROP INDEX deliveries_next;

-- A receiver knows a delivery by its webhook-id.
CREATE INDEX deliveries_of_message ON deliveries (message_id);

-- What a job queued is the newest such job's; what is at work, or old, is found among all that ever was.
CREATE INDEX jobs_of_delivery ON webhook_job_deliveries (delivery_id, job_id);
CREATE INDEX jobs_of_account ON webhook_jobs (account_id, id);
CREATE INDEX jobs_by_state ON webhook_jobs (state, created_at_ms);
