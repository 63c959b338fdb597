-- +goose Up
-- When an operator let a payout pass that is above the largest payout of the treasury.
ALTER TABLE payout ADD COLUMN size_released_at timestamptz;

-- +goose Down
ALTER TABLE payout DROP COLUMN size_released_at;
