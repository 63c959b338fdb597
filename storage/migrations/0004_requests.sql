-- +goose Up
-- The scopes of keys, their rate limits, and idempotent requests.

ALTER TABLE api_key ADD COLUMN scopes text[] NOT NULL DEFAULT '{full}';
CREATE INDEX api_key_merchant ON api_key (merchant_id, mode, id);

-- Token buckets of keys, and of IP addresses that send requests without a valid key. The table is
-- unlogged: its writes do not wait for the disk, and a crash empties it. Then full buckets return,
-- which harms nobody.
CREATE UNLOGGED TABLE token_bucket (
    owner   text NOT NULL,
    kind    text NOT NULL,
    rate    double precision NOT NULL, -- tokens a second
    burst   integer NOT NULL,          -- tokens of a full bucket
    tokens  double precision NOT NULL,
    allowed boolean NOT NULL,          -- what the last request was told
    at      timestamptz NOT NULL,
    PRIMARY KEY (owner, kind)
) WITH (fillfactor = 50); -- room for the next version beside the last one

CREATE TABLE idempotent_request (
    merchant_id   text NOT NULL REFERENCES merchant,
    mode          text NOT NULL,
    route         text NOT NULL, -- method and path
    key           text NOT NULL,
    fingerprint   bytea NOT NULL, -- SHA-256 of the body
    seed          bytea NOT NULL, -- sealed; a repeat after a crash makes the same ids and secrets from it
    master_key_id text NOT NULL REFERENCES master_key,
    locked_until  timestamptz, -- a process works on it; null: it ended without a stored answer
    status        integer,     -- of the answer; null: none yet
    answer        bytea,       -- sealed, because it may have a secret: its location, a line break, its body
    created_at    timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (merchant_id, mode, route, key)
);
CREATE INDEX idempotent_request_age ON idempotent_request (created_at);

-- Lists of sessions and payouts.
CREATE INDEX checkout_session_unusual ON checkout_session (merchant_id, mode, status, id) WHERE status <> 'expired';
CREATE INDEX checkout_session_order ON checkout_session (merchant_id, mode, (metadata->>'order_id'), id) WHERE metadata->>'order_id' IS NOT NULL;
CREATE INDEX payout_merchant ON payout (merchant_id, mode, id);
CREATE INDEX transaction_session ON transaction (session_id, id);

-- +goose Down
DROP INDEX transaction_session, payout_merchant, checkout_session_order, checkout_session_unusual, api_key_merchant;
DROP TABLE idempotent_request, token_bucket;
ALTER TABLE api_key DROP COLUMN scopes;
