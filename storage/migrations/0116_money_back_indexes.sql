-- +goose NO TRANSACTION
-- +goose Up
SET lock_timeout = '30min';
ALTER TABLE refund VALIDATE CONSTRAINT refund_reason_check;

DROP INDEX CONCURRENTLY IF EXISTS refund_merchant;
CREATE INDEX CONCURRENTLY refund_merchant ON refund (merchant_id, mode, id) WHERE merchant_id IS NOT NULL;

DROP INDEX CONCURRENTLY IF EXISTS refund_due;
CREATE INDEX CONCURRENTLY refund_due ON refund (coalesce(next_action_at, created_at)) WHERE status = 'pending';

DROP INDEX CONCURRENTLY IF EXISTS charge_risk_dispute;
CREATE INDEX CONCURRENTLY charge_risk_dispute ON charge_risk (merchant_id, mode, dispute_id) WHERE dispute_id IS NOT NULL;

-- The list of what changed a merchant's balance.
DROP INDEX CONCURRENTLY IF EXISTS ledger_posting_payable;
CREATE INDEX CONCURRENTLY ledger_posting_payable ON ledger_posting (holder, mode, entry_id)
    WHERE account = 'merchant:payable';
RESET lock_timeout;
