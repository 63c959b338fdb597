-- +goose Up
-- A payment keeps its card network, and the chain of its payout, when a setting changes. Older builds store
-- neither: see storage.NewPayment.
ALTER TABLE transaction
    ADD COLUMN acquirer  text CONSTRAINT transaction_acquirer_check CHECK (acquirer IN ('sandbox', 'stripe')),
    ADD COLUMN chain_ref text; -- CAIP-2, such as eip155:1, or sandbox

-- +goose Down
ALTER TABLE transaction DROP COLUMN acquirer, DROP COLUMN chain_ref;
