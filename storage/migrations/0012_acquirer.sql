-- +goose Up
-- A charge has a name at the card network before it can move money, and each confirmation is noted
-- before it is sent.
ALTER TABLE transaction
    ADD COLUMN acquirer_ref text,                      -- the card network's name of the charge; the first one stays
    ADD COLUMN confirms     integer NOT NULL DEFAULT 0, -- confirmations that were sent, or were about to be
    ADD COLUMN rate_at      timestamptz,
    ADD COLUMN rate_sources json;                      -- the price of each source; null in test mode
CREATE UNIQUE INDEX transaction_acquirer_ref_key ON transaction (mode, acquirer_ref) WHERE acquirer_ref IS NOT NULL;

-- What the card network reported. A report is a hint to look; the network's own state decides.
CREATE TABLE acquirer_event (
    id          text PRIMARY KEY,
    mode        text NOT NULL,
    type        text NOT NULL,
    object_id   text NOT NULL,
    reference   text NOT NULL, -- acquirer_ref of the charge; "" when the report is about something else
    created_at  timestamptz NOT NULL,
    received_at timestamptz NOT NULL
);
CREATE INDEX acquirer_event_reference ON acquirer_event (mode, reference) WHERE reference <> '';

-- Money that goes back to a card. A charge is refunded at most once, and whole.
CREATE TABLE refund (
    id             text PRIMARY KEY, -- re_…, the key under which the card network knows it
    mode           text NOT NULL,
    acquirer_ref   text NOT NULL,
    transaction_id text,             -- null: the charge belongs to no transaction
    reason         text NOT NULL CONSTRAINT refund_reason_check CHECK (reason IN ('unmatched', 'operator')),
    status         text NOT NULL CONSTRAINT refund_status_check CHECK (status IN ('pending', 'succeeded', 'failed')),
    network_ref    text NOT NULL DEFAULT '',
    created_at     timestamptz NOT NULL,
    ended_at       timestamptz,
    CONSTRAINT refund_acquirer_ref_key UNIQUE (mode, acquirer_ref)
);
CREATE INDEX refund_pending ON refund (id) WHERE status = 'pending';

-- A difference between the books and the world, until it is explained.
CREATE TABLE finding (
    id        text PRIMARY KEY,
    mode      text NOT NULL,
    kind      text NOT NULL,
    subject   text NOT NULL,
    detail    text NOT NULL,
    opened_at timestamptz NOT NULL,
    closed_at timestamptz
);
CREATE UNIQUE INDEX finding_open_key ON finding (mode, kind, subject) WHERE closed_at IS NULL;

-- +goose Down
DROP TABLE finding, refund, acquirer_event;
ALTER TABLE transaction DROP COLUMN acquirer_ref, DROP COLUMN confirms, DROP COLUMN rate_at, DROP COLUMN rate_sources;
