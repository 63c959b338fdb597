-- +goose Up
-- How far the charges and the movements of the card network are compared, by mode: for good, and in the present round.
CREATE TABLE acquirer_comparison (
    mode        text PRIMARY KEY,
    compared_to timestamptz NOT NULL,
    read_to     timestamptz NOT NULL
);
-- When a person took a frozen account out of use: nothing that it did can have paid a payout that waits.
ALTER TABLE treasury_account ADD COLUMN retired_at timestamptz;
