-- +goose Up
-- What an operator has suspended of a merchant: payments, payouts, sign_in; since when and why.
ALTER TABLE merchant
    ADD COLUMN suspended text[] NOT NULL DEFAULT '{}',
    ADD COLUMN suspended_at timestamptz,
    ADD COLUMN suspended_why text NOT NULL DEFAULT '';
