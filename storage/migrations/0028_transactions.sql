-- +goose NO TRANSACTION
-- +goose Up
-- The list of a merchant's transactions.
SET lock_timeout = '30min';
DROP INDEX CONCURRENTLY IF EXISTS transaction_merchant;
CREATE INDEX CONCURRENTLY transaction_merchant ON transaction (merchant_id, mode, id);
RESET lock_timeout;

-- +goose Down
DROP INDEX transaction_merchant;
