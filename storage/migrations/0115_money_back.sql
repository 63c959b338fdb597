-- +goose Up
-- Money that comes back: refunds by merchants, disputes, and what a merchant owes.

ALTER TABLE refund DROP CONSTRAINT refund_reason_check;
ALTER TABLE refund
    ADD CONSTRAINT refund_reason_check CHECK (reason IN ('unmatched', 'operator', 'merchant')) NOT VALID,
    ADD COLUMN merchant_id text, -- null: the charge belongs to no transaction
    ADD COLUMN cause text NOT NULL DEFAULT '', -- the merchant's reason
    ADD COLUMN fee_returned bigint NOT NULL DEFAULT 0, -- minor units; merchants lose the amount less this
    ADD COLUMN next_action_at timestamptz; -- when a pending refund is followed again; null: as soon as possible
-- Version 1.0.0 gave the whole fee back, and writes refunds without the merchant during an upgrade.
UPDATE refund r SET merchant_id = t.merchant_id, fee_returned = CASE r.reason WHEN 'operator' THEN t.fee ELSE 0 END
    FROM transaction t WHERE t.id = r.transaction_id;
-- +goose StatementBegin
CREATE FUNCTION refund_merchant() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    SELECT t.merchant_id INTO NEW.merchant_id FROM transaction t WHERE t.id = NEW.transaction_id;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER refund_merchant BEFORE INSERT ON refund
    FOR EACH ROW WHEN (NEW.merchant_id IS NULL AND NEW.transaction_id IS NOT NULL) EXECUTE FUNCTION refund_merchant();

-- What a payout does not pay of its source amount.
ALTER TABLE payout
    ADD COLUMN deducted bigint NOT NULL DEFAULT 0, -- the sum of its deductions
    -- A payout of a merchant's available balance has neither.
    ALTER COLUMN session_id DROP NOT NULL,
    ALTER COLUMN transaction_id DROP NOT NULL,
    ADD COLUMN chain_ref text; -- of a payout without a payment
CREATE TABLE payout_deduction (
    payout_id   text NOT NULL REFERENCES payout ON DELETE CASCADE,
    merchant_id text NOT NULL,
    mode        text NOT NULL,
    type        text NOT NULL CHECK (type IN ('refund', 'dispute', 'recovery', 'reserve')),
    source      text NOT NULL, -- id of the refund, dispute or reserved payment; the currency of a recovered debt
    amount      bigint NOT NULL CHECK (amount > 0), -- minor units of the payout's source currency
    owed        bigint, -- what a recovery paid, in minor units of the debt's currency
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (payout_id, type, source)
);

ALTER TABLE charge_risk
    ADD COLUMN dispute_id text, -- dp_…, of a dispute
    ADD COLUMN debited boolean NOT NULL DEFAULT false, -- the merchant's balance bears it
    ADD COLUMN reason text NOT NULL DEFAULT '',
    ADD COLUMN respond_by timestamptz,
    ADD COLUMN responded boolean NOT NULL DEFAULT false,
    ADD COLUMN fee bigint NOT NULL DEFAULT 0, -- of the card network for a dispute, in minor units of fee_currency
    ADD COLUMN fee_currency text NOT NULL DEFAULT '';

-- Modes in which a merchant may owe something, or may have an available balance: the ledger has the sums.
ALTER TABLE merchant
    ADD COLUMN owes text[] NOT NULL DEFAULT '{}',
    ADD COLUMN credits text[] NOT NULL DEFAULT '{}',
    -- What the merchant's plan says beside the fee.
    ADD COLUMN debt_limit bigint, -- minor units of any currency; null: the default
    ADD COLUMN recovery_percent integer NOT NULL DEFAULT 100, -- of a payout that pays a debt
    ADD COLUMN reserve_basis_points integer NOT NULL DEFAULT 0, -- of each payment's net
    ADD COLUMN reserve_days integer NOT NULL DEFAULT 0,
    ADD COLUMN payout_delay_hours integer; -- from a payment to its payout; null: the installation's

-- What is kept of a payment until release_at.
CREATE TABLE reserve (
    transaction_id text PRIMARY KEY,
    merchant_id    text NOT NULL,
    mode           text NOT NULL,
    currency       text NOT NULL,
    amount         bigint NOT NULL CHECK (amount > 0), -- minor units
    release_at     timestamptz NOT NULL,
    released_at    timestamptz
);
CREATE INDEX reserve_due ON reserve (release_at) WHERE released_at IS NULL;
