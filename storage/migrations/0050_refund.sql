-- +goose Up
-- A refund gives back what is left of a charge, and a charge may have another one when the first has failed.
ALTER TABLE refund
    ADD COLUMN amount   bigint,      -- minor units; null in rows of older builds, which gave the whole charge back
    ADD COLUMN asked_at timestamptz; -- when the card network was last asked about a refund that succeeded
-- The build of before cannot order a refund after this: it names the constraint. Its orders are repeated.
ALTER TABLE refund DROP CONSTRAINT refund_acquirer_ref_key;

-- When the chain was last compared with the transfers, up to its last final block, and agreed with their nonces.
ALTER TABLE treasury_account ADD COLUMN compared_at timestamptz;
-- Every freeze is of the same kind: from a block on, the transfers may lack outflows.
UPDATE treasury_account SET unexplained_block = next_block WHERE frozen_at IS NOT NULL AND unexplained_block IS NULL;

-- +goose Down
ALTER TABLE treasury_account DROP COLUMN compared_at;
ALTER TABLE refund ADD CONSTRAINT refund_acquirer_ref_key UNIQUE (mode, acquirer_ref);
ALTER TABLE refund DROP COLUMN asked_at, DROP COLUMN amount;
