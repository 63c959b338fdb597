-- +goose Up
-- What an operator may do about live money.

-- A refund of a payment ends its payout.
CREATE INDEX refund_transaction ON refund (transaction_id);

-- +goose Down
DROP INDEX refund_transaction;
