-- +goose NO TRANSACTION
-- +goose Up
-- Lists of the dashboard. The indexes are built while the service works. A build waits for older
-- transactions without holding anybody up, so it may wait for long. A build that failed leaves an index
-- that nobody uses: a repeat drops it first.
SET lock_timeout = '30min';

-- Payouts that were not sent: few among many, and looked for by name.
DROP INDEX CONCURRENTLY IF EXISTS payout_unusual;
CREATE INDEX CONCURRENTLY payout_unusual ON payout (merchant_id, mode, status, id) WHERE status <> 'sent';

RESET lock_timeout;

-- +goose Down
DROP INDEX payout_unusual;
