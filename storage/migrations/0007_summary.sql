-- +goose Up
-- Sessions by the customer's e-mail address: as the merchant sent it, and as the customer typed it.
CREATE INDEX checkout_session_email ON checkout_session (merchant_id, mode, lower(customer_email), id) WHERE customer_email IS NOT NULL;
CREATE INDEX transaction_email ON transaction (merchant_id, mode, lower(customer_email), session_id) WHERE customer_email IS NOT NULL;

-- +goose Down
DROP INDEX transaction_email, checkout_session_email;
