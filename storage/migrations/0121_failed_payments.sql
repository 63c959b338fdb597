-- +goose NO TRANSACTION
-- +goose Up
-- The live payments that failed lately, by which a burst of declined cards is found.
SET lock_timeout = '30min';
DROP INDEX CONCURRENTLY IF EXISTS transaction_failed;
CREATE INDEX CONCURRENTLY transaction_failed ON transaction (completed_at) WHERE mode = 'live' AND status = 'failed';
RESET lock_timeout;
