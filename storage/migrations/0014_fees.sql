-- +goose Up
-- A plan's fee has a fixed part, in minor units of the payment's currency.
ALTER TABLE merchant
    ADD COLUMN fee_fixed bigint NOT NULL DEFAULT 0 CONSTRAINT merchant_fee_fixed_check CHECK (fee_fixed BETWEEN 0 AND 10000);

-- The merchant's plan when the payment was decided; null when an older build decided it.
ALTER TABLE transaction
    ADD COLUMN plan             text,
    ADD COLUMN fee_basis_points bigint,
    ADD COLUMN fee_fixed        bigint;

-- +goose Down
ALTER TABLE transaction DROP COLUMN fee_fixed, DROP COLUMN fee_basis_points, DROP COLUMN plan;
ALTER TABLE merchant DROP COLUMN fee_fixed;
