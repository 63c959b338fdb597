-- +goose NO TRANSACTION
-- +goose Up
-- Lists of the dashboard. The indexes are built while the service works. A build waits for older
-- transactions without holding anybody up, so it may wait for long. A build that failed leaves an index
-- that nobody uses: a repeat drops it first.
SET lock_timeout = '30min';

-- Payouts that were not sent: few among many, and looked for by name.
DROP INDEX CONCURRENTLY IF EXISTS payout_unusual;
CREATE INDEX CONCURRENTLY payout_unusual ON payout (merchant_id, mode, status, id) WHERE status <> 'sent';

-- The beginning of an order id or of an e-mail address, in any collation; and a card's last four digits. The
-- first three find the whole of it too, so they replace indexes.
DROP INDEX CONCURRENTLY IF EXISTS checkout_session_order_prefix;
CREATE INDEX CONCURRENTLY checkout_session_order_prefix ON checkout_session
    (merchant_id, mode, (metadata->>'order_id') text_pattern_ops, id) WHERE metadata->>'order_id' IS NOT NULL;
DROP INDEX CONCURRENTLY IF EXISTS checkout_session_order;
DROP INDEX CONCURRENTLY IF EXISTS checkout_session_email_prefix;
CREATE INDEX CONCURRENTLY checkout_session_email_prefix ON checkout_session
    (merchant_id, mode, lower(customer_email) text_pattern_ops, id) WHERE customer_email IS NOT NULL;
DROP INDEX CONCURRENTLY IF EXISTS checkout_session_email;
DROP INDEX CONCURRENTLY IF EXISTS transaction_email_prefix;
CREATE INDEX CONCURRENTLY transaction_email_prefix ON transaction
    (merchant_id, mode, lower(customer_email) text_pattern_ops, session_id) WHERE customer_email IS NOT NULL;
DROP INDEX CONCURRENTLY IF EXISTS transaction_email;
DROP INDEX CONCURRENTLY IF EXISTS transaction_last4;
CREATE INDEX CONCURRENTLY transaction_last4 ON transaction
    (merchant_id, mode, (payment_method->>'last4'), session_id) WHERE payment_method->>'last4' IS NOT NULL;

RESET lock_timeout;

-- +goose Down
DROP INDEX transaction_last4, transaction_email_prefix, checkout_session_email_prefix, checkout_session_order_prefix,
    payout_unusual;
CREATE INDEX checkout_session_order ON checkout_session (merchant_id, mode, (metadata->>'order_id'), id) WHERE metadata->>'order_id' IS NOT NULL;
CREATE INDEX checkout_session_email ON checkout_session (merchant_id, mode, lower(customer_email), id) WHERE customer_email IS NOT NULL;
CREATE INDEX transaction_email ON transaction (merchant_id, mode, lower(customer_email), session_id) WHERE customer_email IS NOT NULL;
