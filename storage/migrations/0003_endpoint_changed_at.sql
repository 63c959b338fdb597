-- +goose Up
-- When a registration was changed last. Whoever checks which events it had to get, or where an attempt
-- had to go, can do so for what came later. What was changed before this column was there is not known.
ALTER TABLE webhook_endpoint ADD COLUMN changed_at timestamptz;
UPDATE webhook_endpoint SET changed_at = now();

-- +goose Down
ALTER TABLE webhook_endpoint DROP COLUMN changed_at;
