-- +goose Up
-- When the card network makes the money of a charge available; null while it has not said so, and for the
-- charges that an older build booked. Those are asked about again.
ALTER TABLE transaction ADD COLUMN available_at timestamptz;

-- The charges of a merchant whose money is not available yet. The expression is storage.acquirerOf.
CREATE INDEX transaction_unavailable ON transaction (merchant_id, mode, coalesce(available_at, 'infinity'))
    WHERE status = 'succeeded' AND coalesce(acquirer, CASE mode WHEN 'live' THEN 'stripe' ELSE 'sandbox' END) <> 'sandbox';
-- The charges that the card network must be asked about.
CREATE INDEX transaction_unbooked ON transaction (mode, acquirer_ref) WHERE status = 'succeeded' AND available_at IS NULL
    AND coalesce(acquirer, CASE mode WHEN 'live' THEN 'stripe' ELSE 'sandbox' END) <> 'sandbox';

-- +goose Down
DROP INDEX transaction_unbooked, transaction_unavailable;
ALTER TABLE transaction DROP COLUMN available_at;
