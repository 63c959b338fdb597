-- +goose Up
-- The dashboard's page that the mail is about, such as test/webhooks/we_…; '' when its kind has one page.
ALTER TABLE mail ADD COLUMN page text NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE mail DROP COLUMN page;
