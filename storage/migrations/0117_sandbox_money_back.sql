-- +goose Up
-- Money that goes back in the test mode's card network. What waits for its time is written when it is
-- made: from later_at on, the status is later_status.
CREATE TABLE sandbox_refund (
    id             text PRIMARY KEY, -- that of our refund
    transaction_id text NOT NULL REFERENCES sandbox_charge ON DELETE CASCADE,
    amount         bigint NOT NULL CHECK (amount > 0),
    status         text NOT NULL,
    later_status   text NOT NULL,
    later_at       timestamptz NOT NULL,
    report_at      timestamptz -- when the service is called back; null: there is nothing to report
);
CREATE INDEX sandbox_refund_charge ON sandbox_refund (transaction_id);
CREATE INDEX sandbox_refund_report ON sandbox_refund (report_at) WHERE report_at IS NOT NULL;

-- A dispute, an inquiry or an early fraud warning. The evidence is not kept: only its outcome is needed.
CREATE TABLE sandbox_dispute (
    id             text PRIMARY KEY, -- du_… or issfr_…
    transaction_id text NOT NULL UNIQUE REFERENCES sandbox_charge ON DELETE CASCADE,
    reason         text NOT NULL,
    amount         bigint NOT NULL CHECK (amount > 0),
    status         text NOT NULL, -- Stripe's words; early_fraud_warning for a warning
    later_status   text NOT NULL,
    later_at       timestamptz NOT NULL,
    report_at      timestamptz,
    respond_by     timestamptz, -- null: no evidence is wanted
    responded_at   timestamptz
);
CREATE INDEX sandbox_dispute_report ON sandbox_dispute (report_at) WHERE report_at IS NOT NULL;
