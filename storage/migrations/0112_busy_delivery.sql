-- +goose Up
-- A delivery that waits for a place at its busy endpoint, while busy_until is its next_attempt_at:
-- about how many attempts come first.
ALTER TABLE webhook_delivery
    ADD COLUMN busy_until timestamptz,
    ADD COLUMN attempts_ahead integer;
