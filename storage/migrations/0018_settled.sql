-- +goose NO TRANSACTION
-- +goose Up
-- When the card network makes the money of a charge available; null while it has not said so, and for the
-- charges that an older build booked. Those are asked about again.
ALTER TABLE transaction ADD COLUMN IF NOT EXISTS available_at timestamptz;

-- The indexes are built while the service works; a build waits for older transactions without holding
-- anybody up. A build that failed leaves an index that nobody uses: a repeat drops it first.
SET lock_timeout = '30min';

-- The charges of a merchant whose money is not available yet. The expression is storage.acquirerOf.
DROP INDEX CONCURRENTLY IF EXISTS transaction_unavailable;
CREATE INDEX CONCURRENTLY transaction_unavailable ON transaction (merchant_id, mode, coalesce(available_at, 'infinity'))
    WHERE status = 'succeeded' AND coalesce(acquirer, CASE mode WHEN 'live' THEN 'stripe' ELSE 'sandbox' END) <> 'sandbox';
-- The charges that the card network must be asked about.
DROP INDEX CONCURRENTLY IF EXISTS transaction_unbooked;
CREATE INDEX CONCURRENTLY transaction_unbooked ON transaction (mode, acquirer_ref) WHERE status = 'succeeded' AND available_at IS NULL
    AND coalesce(acquirer, CASE mode WHEN 'live' THEN 'stripe' ELSE 'sandbox' END) <> 'sandbox';

RESET lock_timeout;

-- +goose Down
DROP INDEX transaction_unbooked, transaction_unavailable;
ALTER TABLE transaction DROP COLUMN available_at;
