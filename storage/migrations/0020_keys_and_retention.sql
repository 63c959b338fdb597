-- +goose NO TRANSACTION
-- +goose Up
-- Master keys that may leave, and indexes for the removal of old rows. The indexes are built while the
-- service works. A build waits for older transactions without holding anybody up, so it may wait for long.
-- A build that failed leaves an index that nobody uses: a repeat drops it first.
SET lock_timeout = '30min';

-- Since when nothing needs the key. Processes of the build of before still ask for it.
ALTER TABLE master_key ADD COLUMN IF NOT EXISTS retired_at timestamptz;

-- What a key has sealed.
DROP INDEX CONCURRENTLY IF EXISTS webhook_endpoint_master_key;
CREATE INDEX CONCURRENTLY webhook_endpoint_master_key ON webhook_endpoint (master_key_id);
DROP INDEX CONCURRENTLY IF EXISTS webhook_endpoint_previous_master_key;
CREATE INDEX CONCURRENTLY webhook_endpoint_previous_master_key ON webhook_endpoint (previous_master_key_id)
    WHERE previous_master_key_id IS NOT NULL;
DROP INDEX CONCURRENTLY IF EXISTS idempotent_request_master_key;
CREATE INDEX CONCURRENTLY idempotent_request_master_key ON idempotent_request (master_key_id);

-- Sessions that may be removed, as a completed one of live mode never is; and what the foreign keys look at.
DROP INDEX CONCURRENTLY IF EXISTS checkout_session_removable;
CREATE INDEX CONCURRENTLY checkout_session_removable ON checkout_session (id)
    WHERE status <> 'pending' AND (mode = 'test' OR status <> 'completed');
DROP INDEX CONCURRENTLY IF EXISTS payout_transaction;
CREATE INDEX CONCURRENTLY payout_transaction ON payout (transaction_id);
DROP INDEX CONCURRENTLY IF EXISTS transfer_payout_payout;
CREATE INDEX CONCURRENTLY transfer_payout_payout ON transfer_payout (payout_id);
DROP INDEX CONCURRENTLY IF EXISTS webhook_replay_endpoint;
CREATE INDEX CONCURRENTLY webhook_replay_endpoint ON webhook_replay (endpoint_id);
DROP INDEX CONCURRENTLY IF EXISTS webhook_endpoint_session;
CREATE INDEX CONCURRENTLY webhook_endpoint_session ON webhook_endpoint (session_id) WHERE session_id IS NOT NULL;
DROP INDEX CONCURRENTLY IF EXISTS checkout_session_signing_endpoint;
CREATE INDEX CONCURRENTLY checkout_session_signing_endpoint ON checkout_session (signing_endpoint_id)
    WHERE signing_endpoint_id IS NOT NULL;
DROP INDEX CONCURRENTLY IF EXISTS sandbox_card_age;
CREATE INDEX CONCURRENTLY sandbox_card_age ON sandbox_card (created_at);
DROP INDEX CONCURRENTLY IF EXISTS sandbox_charge_age;
CREATE INDEX CONCURRENTLY sandbox_charge_age ON sandbox_charge (created_at);
DROP INDEX CONCURRENTLY IF EXISTS sandbox_transfer_age;
CREATE INDEX CONCURRENTLY sandbox_transfer_age ON sandbox_transfer (created_at);

RESET lock_timeout;

-- +goose Down
DROP INDEX sandbox_transfer_age, sandbox_charge_age, sandbox_card_age, checkout_session_signing_endpoint,
    webhook_endpoint_session, webhook_replay_endpoint, transfer_payout_payout, payout_transaction,
    checkout_session_removable, idempotent_request_master_key, webhook_endpoint_previous_master_key,
    webhook_endpoint_master_key;
ALTER TABLE master_key DROP COLUMN retired_at;
