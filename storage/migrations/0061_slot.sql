-- +goose Up
-- A transfer of an account whose transactions have an order has a number as its slot: transfer.nonce, which is unique.
-- On other chains that number is only the order of signing, and the slot is these units.
CREATE TABLE transfer_slot (
    transfer_id text NOT NULL REFERENCES transfer,
    account_id  text NOT NULL REFERENCES treasury_account,
    unit        text NOT NULL,
    position    integer NOT NULL, -- in the slot, from 1: the transaction has its units in this order
    standing    boolean NOT NULL DEFAULT true, -- false once the transfer was proved dead
    PRIMARY KEY (transfer_id, unit)
);
-- Of two transfers with a common unit the chain accepts only one.
CREATE UNIQUE INDEX transfer_slot_standing_key ON transfer_slot (account_id, unit) WHERE standing;

-- Units that transactions of nobody used before the account was opened, or that a person has accepted.
ALTER TABLE treasury_account ADD COLUMN accepted_units text[] NOT NULL DEFAULT '{}';

-- Where the payout's part of the transfer goes; NULL in rows of the build of before, whose transfers have one payout.
ALTER TABLE transfer_payout ADD COLUMN destination text;

-- +goose Down
ALTER TABLE transfer_payout DROP COLUMN destination;
ALTER TABLE treasury_account DROP COLUMN accepted_units;
DROP TABLE transfer_slot;
