-- +goose Up
-- Steering of deliveries, rotation of secrets, bulk replay, and what Reconcile looks for.

ALTER TABLE webhook_endpoint
    ADD COLUMN previous_master_key_id text REFERENCES master_key,
    ADD COLUMN previous_sealed_digest bytea,       -- signs beside the current one until
    ADD COLUMN previous_expires_at    timestamptz;

ALTER TABLE webhook_delivery
    ADD COLUMN session_url   boolean NOT NULL DEFAULT false, -- url is a session's own, not the registration's
    ADD COLUMN held          boolean NOT NULL DEFAULT false,
    ADD COLUMN parked_at     timestamptz,  -- it came due while on hold; its run waits for the signal resume
    ADD COLUMN sending_until timestamptz,  -- an attempt is under way, or its worker died
    ADD COLUMN hurried_at    timestamptz;  -- retry_now was asked for last
UPDATE webhook_delivery d SET session_url = true
    FROM webhook_endpoint w WHERE w.id = d.endpoint_id AND w.url <> d.url;

ALTER TABLE webhook_attempt ADD COLUMN scheduled_at timestamptz;

-- next_attempt_at of a pending delivery is the time by which its run should act. During an attempt it
-- is the time of the next attempt if the worker dies. When a delivery is overdue, Reconcile asks
-- Temporal whether its run still exists.
CREATE INDEX webhook_delivery_overdue ON webhook_delivery (next_attempt_at) WHERE status = 'pending' AND parked_at IS NULL;
CREATE INDEX webhook_delivery_parked ON webhook_delivery (id) WHERE parked_at IS NOT NULL;
CREATE INDEX checkout_session_overdue ON checkout_session (expires_at) WHERE status = 'pending';
CREATE INDEX payout_pending ON payout (created_at) WHERE status = 'pending';

-- Lists, newest first. Nearly all deliveries are delivered, so the index for the other statuses stays
-- small.
CREATE INDEX webhook_delivery_merchant ON webhook_delivery (merchant_id, mode, id);
CREATE INDEX webhook_delivery_endpoint ON webhook_delivery (endpoint_id, id);
CREATE INDEX webhook_delivery_unusual ON webhook_delivery (merchant_id, mode, status, id) WHERE status <> 'delivered';
CREATE INDEX event_merchant ON event (merchant_id, mode, id);
CREATE INDEX event_session ON event (session_id) WHERE session_id IS NOT NULL;

CREATE TABLE webhook_replay (
    id          text PRIMARY KEY,
    merchant_id text NOT NULL REFERENCES merchant,
    mode        text NOT NULL CONSTRAINT webhook_replay_mode_check CHECK (mode IN ('test', 'live')),
    endpoint_id text NOT NULL REFERENCES webhook_endpoint,
    since       timestamptz NOT NULL,
    until       timestamptz NOT NULL,
    filter      text NOT NULL CONSTRAINT webhook_replay_filter_check CHECK (filter IN ('delivered', 'failed', 'canceled')),
    rate        integer NOT NULL CONSTRAINT webhook_replay_rate_check CHECK (rate > 0), -- deliveries a second
    status      text NOT NULL CONSTRAINT webhook_replay_status_check CHECK (status IN ('running', 'completed', 'canceled')),
    total       integer NOT NULL,           -- counted when it was created
    after       text NOT NULL DEFAULT '',   -- the last delivery that was started
    started     integer NOT NULL DEFAULT 0, -- runs started so far
    skipped     integer NOT NULL DEFAULT 0, -- that were in progress when their turn came
    created_at  timestamptz NOT NULL,
    finished_at timestamptz,
    CONSTRAINT webhook_replay_finished_check CHECK ((status = 'running') = (finished_at IS NULL))
);
CREATE INDEX webhook_replay_merchant ON webhook_replay (merchant_id, mode, id);
CREATE INDEX webhook_replay_running ON webhook_replay (created_at) WHERE status = 'running';

-- +goose Down
DROP TABLE webhook_replay;
DROP INDEX event_session, event_merchant, webhook_delivery_unusual, webhook_delivery_endpoint, webhook_delivery_merchant,
    payout_pending, checkout_session_overdue, webhook_delivery_parked, webhook_delivery_overdue;
ALTER TABLE webhook_attempt DROP COLUMN scheduled_at;
ALTER TABLE webhook_delivery DROP COLUMN hurried_at, DROP COLUMN sending_until, DROP COLUMN parked_at, DROP COLUMN held, DROP COLUMN session_url;
ALTER TABLE webhook_endpoint DROP COLUMN previous_expires_at, DROP COLUMN previous_sealed_digest, DROP COLUMN previous_master_key_id;
