-- +goose Up
-- How far the charges and the movements of the card network are compared, by mode: for good, and in the present round.
CREATE TABLE acquirer_comparison (
    mode        text PRIMARY KEY,
    compared_to timestamptz NOT NULL,
    read_to     timestamptz NOT NULL
);
-- When a person has explained every transaction of a frozen account: none can have paid a payout that waits.
ALTER TABLE treasury_account ADD COLUMN explained_at timestamptz;
