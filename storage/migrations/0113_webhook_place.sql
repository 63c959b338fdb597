-- +goose Up
-- The attempts under way at registrations with max_in_flight, so that all workers share the limit. A
-- place whose worker died is free at until.
CREATE TABLE webhook_place (
    delivery_id text PRIMARY KEY REFERENCES webhook_delivery ON DELETE CASCADE,
    endpoint_id text NOT NULL REFERENCES webhook_endpoint,
    until       timestamptz NOT NULL
);
CREATE INDEX webhook_place_endpoint ON webhook_place (endpoint_id);
ALTER TABLE webhook_endpoint
    ADD COLUMN paced_until timestamptz, -- the next attempt that rate_limit allows
    ADD COLUMN paused_until timestamptz; -- the receiver's Retry-After
