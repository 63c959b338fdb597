-- +goose Up
-- The generations of a payout that failed and were retried, oldest first. A session's timeline tells them.
ALTER TABLE payout ADD COLUMN retried jsonb NOT NULL DEFAULT '[]';

-- +goose Down
ALTER TABLE payout DROP COLUMN retried;
