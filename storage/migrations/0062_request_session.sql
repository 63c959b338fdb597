-- +goose Up
-- The session that the answer was about, '' for none. It is the merchant's; no foreign key: either may be deleted first.
ALTER TABLE api_request ADD COLUMN session_id text NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE api_request DROP COLUMN session_id;
