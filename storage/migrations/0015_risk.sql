-- +goose Up
-- What happens to a charge after it was paid: disputes, warnings of fraud, and refunds that others made.

-- A report that nobody has followed yet: the card network must be asked about the charge.
ALTER TABLE acquirer_event ADD COLUMN unseen boolean NOT NULL DEFAULT false;
CREATE INDEX acquirer_event_unseen ON acquirer_event (mode, reference) WHERE unseen;

-- Up to where the card network's list of reports was read.
CREATE TABLE acquirer_cursor (
    mode       text PRIMARY KEY,
    event_id   text NOT NULL,
    created_at timestamptz NOT NULL -- of that report
);

-- Something at the card network that puts the payout of a charge at risk. It belongs to a payment, so its
-- queries name the transaction.
CREATE TABLE charge_risk (
    id             text PRIMARY KEY, -- the card network's id
    mode           text NOT NULL,
    merchant_id    text NOT NULL,
    transaction_id text NOT NULL REFERENCES transaction,
    kind           text NOT NULL CONSTRAINT charge_risk_kind_check CHECK (kind IN ('dispute', 'fraud_warning', 'refund')),
    status         text NOT NULL CONSTRAINT charge_risk_status_check CHECK (status IN ('inquiry', 'open', 'won', 'lost')),
    amount         bigint NOT NULL, -- minor units
    currency       text NOT NULL,
    changes        integer NOT NULL DEFAULT 1, -- the generation of its ledger entries
    noted_at       timestamptz NOT NULL,
    changed_at     timestamptz NOT NULL
);
CREATE INDEX charge_risk_transaction ON charge_risk (transaction_id);
CREATE INDEX charge_risk_undecided ON charge_risk (mode, id) WHERE status = 'open' OR status = 'inquiry' AND kind = 'dispute';

-- When an operator took the risk of a payout. What changes later holds the payout again.
ALTER TABLE payout ADD COLUMN risk_released_at timestamptz;

-- +goose Down
ALTER TABLE payout DROP COLUMN risk_released_at;
DROP TABLE charge_risk, acquirer_cursor;
DROP INDEX acquirer_event_unseen;
ALTER TABLE acquirer_event DROP COLUMN unseen;
