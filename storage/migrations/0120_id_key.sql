-- +goose Up
-- The key of ids that hold a number of a row, such as those of balance transactions.
ALTER TABLE installation ADD COLUMN id_key bytea;
UPDATE installation SET id_key = sha256((gen_random_uuid()::text || gen_random_uuid()::text)::bytea);
