-- +goose Up
-- Until when the rate of a payment is locked for its payout. NULL: for ever, as in the sandbox, or an
-- older build locked it.
ALTER TABLE transaction ADD COLUMN rate_until timestamptz;

-- +goose Down
ALTER TABLE transaction DROP COLUMN rate_until;
