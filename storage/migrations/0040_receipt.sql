-- +goose Up
-- Receipts by e-mail. A receipt is a mail to the customer of a session; its detail is the language.
ALTER TABLE merchant ADD COLUMN receipts boolean NOT NULL DEFAULT false;
ALTER TABLE transaction ADD COLUMN language text; -- of the page on which the customer paid
ALTER TABLE mail ADD COLUMN session_id text;      -- of a receipt; no foreign key: the session may be deleted first

-- +goose Down
DELETE FROM mail WHERE session_id IS NOT NULL;
ALTER TABLE mail DROP COLUMN session_id;
ALTER TABLE transaction DROP COLUMN language;
ALTER TABLE merchant DROP COLUMN receipts;
