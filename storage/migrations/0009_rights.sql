-- +goose Up
-- From where something was changed: an IP address, '' for a command.
ALTER TABLE audit_entry ADD COLUMN address text NOT NULL DEFAULT '';

-- Secrets that a browser is about to be shown, once. A form that makes one has a
-- token: sent again, it finds here what it made.
CREATE TABLE reveal (
    session_hash  bytea NOT NULL REFERENCES member_session ON DELETE CASCADE, -- the browser that may see it
    form          text NOT NULL,  -- the form's token
    merchant_id   text NOT NULL,
    mode          text NOT NULL,
    subject       text NOT NULL,  -- the id of what the secret is of
    master_key_id text,
    sealed        bytea,          -- AES-256-GCM of the secret, bound to subject; null once it was shown
    created_at    timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (session_hash, form),
    CONSTRAINT reveal_sealed_check CHECK ((master_key_id IS NULL) = (sealed IS NULL))
);
CREATE INDEX reveal_unseen ON reveal (created_at) WHERE sealed IS NOT NULL;

-- An address is one person's with one merchant; another merchant's people have
-- nothing to do with it.
CREATE UNIQUE INDEX member_merchant_email_key ON member (merchant_id, lower(email)) WHERE removed_at IS NULL;
CREATE INDEX member_email ON member (lower(email)) WHERE removed_at IS NULL AND password_hash IS NOT NULL;
DROP INDEX member_email_key;
ALTER TABLE member ADD COLUMN joined_at timestamptz; -- when the first password was chosen
UPDATE member SET joined_at = created_at WHERE password_hash IS NOT NULL;

-- +goose Down
ALTER TABLE member DROP COLUMN joined_at;
DROP INDEX member_email, member_merchant_email_key;
CREATE UNIQUE INDEX member_email_key ON member (lower(email)) WHERE removed_at IS NULL;
DROP TABLE reveal;
ALTER TABLE audit_entry DROP COLUMN address;
