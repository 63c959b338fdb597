-- +goose Up
-- The first block whose outflows the rows may lack; set when the chain knows more than they do.
ALTER TABLE treasury_account ADD COLUMN unexplained_block bigint;

-- +goose Down
ALTER TABLE treasury_account DROP COLUMN unexplained_block;
