-- +goose NO TRANSACTION
-- +goose Up
-- See 0032 for how the indexes are built.
SET lock_timeout = '30min';

-- Payments that have not begun. Retention removes the card's token when they cannot begin any more.
DROP INDEX CONCURRENTLY IF EXISTS transaction_untried;
CREATE INDEX CONCURRENTLY transaction_untried ON transaction (id) WHERE status = 'created' AND card_token IS NOT NULL;

RESET lock_timeout;

-- +goose Down
DROP INDEX transaction_untried;
