-- +goose Up
-- People who sign in to the dashboard of one merchant.
CREATE TABLE member (
    id                    text PRIMARY KEY,
    merchant_id           text NOT NULL REFERENCES merchant,
    email                 text NOT NULL,
    role                  text NOT NULL CONSTRAINT member_role_check CHECK (role IN ('owner', 'developer', 'viewer')),
    password_hash         text,  -- argon2id; null until the invitation is accepted
    invitation_hash       bytea CONSTRAINT member_invitation_hash_key UNIQUE, -- SHA-256 of the token in the link
    invitation_expires_at timestamptz,
    created_at            timestamptz NOT NULL DEFAULT now(),
    signed_in_at          timestamptz,
    removed_at            timestamptz,
    CONSTRAINT member_invitation_check CHECK ((invitation_hash IS NULL) = (invitation_expires_at IS NULL))
);
CREATE UNIQUE INDEX member_email_key ON member (lower(email)) WHERE removed_at IS NULL;
CREATE INDEX member_merchant ON member (merchant_id, id);

-- Signed-in browsers. The token is in the browser's cookie only.
CREATE TABLE member_session (
    hash       bytea PRIMARY KEY, -- SHA-256 of the token
    member_id  text NOT NULL REFERENCES member,
    created_at timestamptz NOT NULL DEFAULT now(),
    seen_at    timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX member_session_member ON member_session (member_id);

-- Who changed what. Rows are only ever added.
CREATE TABLE audit_entry (
    id          text PRIMARY KEY,
    merchant_id text NOT NULL REFERENCES merchant,
    mode        text CONSTRAINT audit_entry_mode_check CHECK (mode IN ('test', 'live')), -- null: both
    actor       text NOT NULL,  -- the member's e-mail as it was then
    action      text NOT NULL,
    subject     text NOT NULL,  -- the id of what was changed
    detail      text NOT NULL,  -- in words, without secrets
    created_at  timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX audit_entry_merchant ON audit_entry (merchant_id, id);

-- The dashboard's live log listens to changes of deliveries.
-- +goose StatementBegin
CREATE FUNCTION tell_delivery() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('delivery', NEW.merchant_id || ' ' || NEW.mode || ' ' || NEW.id);
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER webhook_delivery_tell AFTER INSERT OR UPDATE ON webhook_delivery FOR EACH ROW EXECUTE FUNCTION tell_delivery();

-- +goose Down
DROP TRIGGER webhook_delivery_tell ON webhook_delivery;
DROP FUNCTION tell_delivery();
DROP TABLE audit_entry, member_session, member;
