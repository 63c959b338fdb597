-- +goose Up
-- Registrations whose first attempts all failed since a time. A first attempt that arrives removes the row, so a
-- healthy registration has none, and its deliveries write nothing here.
CREATE TABLE webhook_endpoint_failure (
    endpoint_id text PRIMARY KEY REFERENCES webhook_endpoint,
    since       timestamptz NOT NULL, -- end of the first of these first attempts
    last_at     timestamptz NOT NULL, -- end of the last attempt that failed, to within some seconds
    arrived_at  timestamptz,          -- end of the last later attempt that arrived, to within some seconds
    marked_at   timestamptz,          -- the registration shows that it fails, and people have a mail
    held_at     timestamptz           -- the service has put the registration on hold
);

-- +goose Down
DROP TABLE webhook_endpoint_failure;
