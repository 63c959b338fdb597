-- +goose Up
-- What the hosted page shows of a session beside its terms, and what its footer says about the merchant.
ALTER TABLE checkout_session
    ADD COLUMN cancel_url text,
    ADD COLUMN description text,
    ADD COLUMN locale text,
    ADD COLUMN line_items json; -- a list of name, quantity, unit_amount; null: none
ALTER TABLE merchant
    ADD COLUMN support text, -- an e-mail address or a URL
    ADD COLUMN terms_url text,
    ADD COLUMN privacy_url text;

-- +goose Down
ALTER TABLE merchant DROP COLUMN privacy_url, DROP COLUMN terms_url, DROP COLUMN support;
ALTER TABLE checkout_session DROP COLUMN line_items, DROP COLUMN locale, DROP COLUMN description, DROP COLUMN cancel_url;
