-- +goose Up
-- A plan's fee has a fixed part, in minor units of the payment's currency.
ALTER TABLE merchant
    ADD COLUMN fee_fixed bigint NOT NULL DEFAULT 0 CONSTRAINT merchant_fee_fixed_check CHECK (fee_fixed BETWEEN 0 AND 10000);

-- The merchant's plan when the payment was decided; null when an older build decided it.
ALTER TABLE transaction
    ADD COLUMN plan             text,
    ADD COLUMN fee_basis_points bigint,
    ADD COLUMN fee_fixed        bigint;

-- What a charge cost, as the card network has booked it; null before that, and in test mode.
ALTER TABLE transaction
    ADD COLUMN settled_currency text,   -- in which the card network settles
    ADD COLUMN settled          bigint, -- the charge in that currency, before the cost
    ADD COLUMN cost             bigint; -- in that currency
CREATE INDEX transaction_unsettled ON transaction (id) WHERE mode = 'live' AND status = 'succeeded' AND settled IS NULL;

-- The balances that were last compared with the ledger, at seen_height: decimals by currency.
ALTER TABLE treasury_account ADD COLUMN seen_balances jsonb;

-- The report of a day.
CREATE INDEX transaction_day ON transaction (completed_at) WHERE mode = 'live' AND status = 'succeeded';
CREATE INDEX payout_day ON payout (created_at) WHERE mode = 'live';
CREATE INDEX refund_day ON refund (mode, created_at);
CREATE INDEX acquirer_event_day ON acquirer_event (mode, received_at);
CREATE INDEX ledger_entry_day ON ledger_entry (mode, created_at);

-- +goose Down
DROP INDEX ledger_entry_day, acquirer_event_day, refund_day, payout_day, transaction_day, transaction_unsettled;
ALTER TABLE treasury_account DROP COLUMN seen_balances;
ALTER TABLE transaction DROP COLUMN cost, DROP COLUMN settled, DROP COLUMN settled_currency;
ALTER TABLE transaction DROP COLUMN fee_fixed, DROP COLUMN fee_basis_points, DROP COLUMN plan;
ALTER TABLE merchant DROP COLUMN fee_fixed;
