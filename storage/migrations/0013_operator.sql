-- +goose Up
-- What an operator may do about live money.

-- A refund of a payment ends its payout.
CREATE INDEX refund_transaction ON refund (transaction_id);

-- A transfer that an operator cancels gets a version that pays nothing. It is canceled when that version
-- is the one that the chain took.
ALTER TABLE transfer ADD COLUMN cancel_at timestamptz; -- when an operator asked for it
ALTER TABLE transfer DROP CONSTRAINT transfer_status_check, DROP CONSTRAINT transfer_block_check,
    ADD CONSTRAINT transfer_status_check CHECK (status IN ('live', 'confirmed', 'reverted', 'dead', 'canceled')),
    ADD CONSTRAINT transfer_block_check CHECK ((status IN ('confirmed', 'reverted', 'canceled')) = (tx_hash IS NOT NULL));
ALTER TABLE transfer_version ADD COLUMN cancels boolean NOT NULL DEFAULT false;

-- +goose Down
ALTER TABLE transfer_version DROP COLUMN cancels;
ALTER TABLE transfer DROP CONSTRAINT transfer_status_check, DROP CONSTRAINT transfer_block_check,
    ADD CONSTRAINT transfer_status_check CHECK (status IN ('live', 'confirmed', 'reverted', 'dead')),
    ADD CONSTRAINT transfer_block_check CHECK ((status IN ('confirmed', 'reverted')) = (tx_hash IS NOT NULL));
ALTER TABLE transfer DROP COLUMN cancel_at;
DROP INDEX refund_transaction;
