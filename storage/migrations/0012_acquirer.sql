-- +goose Up
-- A charge has a name at the card network before it can move money, and each confirmation is noted
-- before it is sent.
ALTER TABLE transaction
    ADD COLUMN acquirer_ref text,                      -- the card network's name of the charge; the first one stays
    ADD COLUMN confirms     integer NOT NULL DEFAULT 0, -- confirmations that were sent, or were about to be
    ADD COLUMN rate_at      timestamptz,
    ADD COLUMN rate_sources json;                      -- the price of each source; null in test mode
CREATE UNIQUE INDEX transaction_acquirer_ref_key ON transaction (mode, acquirer_ref) WHERE acquirer_ref IS NOT NULL;

-- +goose Down
ALTER TABLE transaction DROP COLUMN acquirer_ref, DROP COLUMN confirms, DROP COLUMN rate_at, DROP COLUMN rate_sources;
