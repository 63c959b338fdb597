-- +goose NO TRANSACTION
-- +goose Up
SET lock_timeout = '30min';

-- One refund of a charge is under way at a time.
DROP INDEX CONCURRENTLY IF EXISTS refund_under_way_key;
CREATE UNIQUE INDEX CONCURRENTLY refund_under_way_key ON refund (mode, acquirer_ref) WHERE status = 'pending';
-- The refunds of a charge.
DROP INDEX CONCURRENTLY IF EXISTS refund_acquirer_ref;
CREATE INDEX CONCURRENTLY refund_acquirer_ref ON refund (mode, acquirer_ref);
-- The refunds that the customer's bank may still return.
DROP INDEX CONCURRENTLY IF EXISTS refund_returnable;
CREATE INDEX CONCURRENTLY refund_returnable ON refund (mode, ended_at) WHERE status = 'succeeded';

RESET lock_timeout;

-- +goose Down
DROP INDEX refund_under_way_key, refund_acquirer_ref, refund_returnable;
