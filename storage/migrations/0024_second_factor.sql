-- +goose Up
-- The second factor of a person who signs in to the dashboard: a secret from which an app makes codes.
CREATE TABLE second_factor (
    member_id     text PRIMARY KEY REFERENCES member,
    master_key_id text NOT NULL REFERENCES master_key,
    sealed        bytea NOT NULL,            -- the secret
    confirmed_at  timestamptz,               -- null until the person has typed a first code
    last_step     bigint NOT NULL DEFAULT 0, -- codes of this time step and of earlier ones are refused
    created_at    timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX second_factor_master_key ON second_factor (master_key_id);

-- Codes that replace the app once each.
CREATE TABLE recovery_code (
    member_id text NOT NULL REFERENCES member,
    hash      bytea NOT NULL, -- SHA-256
    PRIMARY KEY (member_id, hash)
);

-- +goose Down
DROP TABLE recovery_code, second_factor;
