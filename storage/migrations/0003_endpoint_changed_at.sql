-- +goose Up
-- The time of a registration's last change. A check of the log can tell which events the registration
-- should have got, and where its attempts should have gone, from this time on. Changes before this
-- migration are unknown.
ALTER TABLE webhook_endpoint ADD COLUMN changed_at timestamptz;
UPDATE webhook_endpoint SET changed_at = now();

-- +goose Down
ALTER TABLE webhook_endpoint DROP COLUMN changed_at;
