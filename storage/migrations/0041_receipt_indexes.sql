-- +goose NO TRANSACTION
-- +goose Up
-- See 0032 for how the indexes are built.
SET lock_timeout = '30min';

DROP INDEX CONCURRENTLY IF EXISTS mail_receipt;
CREATE UNIQUE INDEX CONCURRENTLY mail_receipt ON mail (session_id) WHERE session_id IS NOT NULL;
-- Mails to people who sign in come before receipts, of which there may be many.
DROP INDEX CONCURRENTLY IF EXISTS mail_turn;
CREATE INDEX CONCURRENTLY mail_turn ON mail ((session_id IS NOT NULL), next_at) WHERE next_at IS NOT NULL;

RESET lock_timeout;

-- +goose Down
DROP INDEX mail_turn, mail_receipt;
