-- +goose Up
-- The first block whose outflows the rows may lack; set when the chain knows more than they do.
ALTER TABLE treasury_account ADD COLUMN unexplained_block bigint;

-- Why an operator closed a finding; '' when the difference is gone by itself.
ALTER TABLE finding ADD COLUMN closed_why text NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE finding DROP COLUMN closed_why;
ALTER TABLE treasury_account DROP COLUMN unexplained_block;
