-- +goose Up
-- The random name of a person towards passkeys. It is no e-mail address and no id that others know.
CREATE TABLE passkey_handle (
    member_id text PRIMARY KEY REFERENCES member,
    handle    bytea NOT NULL UNIQUE
);

-- A passkey: the public key with which a person's device or key fob proves who signs in.
CREATE TABLE passkey (
    id            text PRIMARY KEY,
    member_id     text NOT NULL REFERENCES member,
    credential_id bytea NOT NULL UNIQUE,
    name          text NOT NULL,
    credential    bytea NOT NULL, -- JSON: the public key, how often it was used, its flags
    created_at    timestamptz NOT NULL DEFAULT now(),
    used_at       timestamptz
);
CREATE INDEX passkey_member ON passkey (member_id);

-- What a passkey has to sign. It is good once, for a few minutes, in one browser and for one purpose.
CREATE TABLE passkey_challenge (
    hash       bytea PRIMARY KEY, -- SHA-256 of the challenge
    browser    bytea NOT NULL,    -- SHA-256 of the browser's cookie
    purpose    text NOT NULL,
    session    bytea NOT NULL,    -- JSON: what the answer must agree with
    expires_at timestamptz NOT NULL
);
CREATE INDEX passkey_challenge_age ON passkey_challenge (expires_at);

-- +goose Down
DROP TABLE passkey_challenge, passkey, passkey_handle;
