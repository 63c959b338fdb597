-- +goose Up
-- Mails to people who sign in to the dashboard. A row has no text: the worker writes the text when it sends.
CREATE TABLE mail (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    member_id  text REFERENCES member, -- null: nobody has the address, and nothing is sent
    kind       text NOT NULL,
    detail     text NOT NULL DEFAULT '', -- in words, without secrets
    created_at timestamptz NOT NULL DEFAULT now(),
    next_at    timestamptz,              -- of the next attempt; null when it was sent or given up
    attempts   integer NOT NULL DEFAULT 0,
    sent_at    timestamptz
);
CREATE INDEX mail_due ON mail (next_at) WHERE next_at IS NOT NULL;
CREATE INDEX mail_member ON mail (member_id, created_at);
CREATE INDEX mail_age ON mail (created_at);

-- The codes with which a person who lost the password may choose another one. The use of one ends the others.
CREATE TABLE password_reset (
    hash       bytea PRIMARY KEY, -- SHA-256
    member_id  text NOT NULL REFERENCES member,
    expires_at timestamptz NOT NULL
);
CREATE INDEX password_reset_member ON password_reset (member_id);

-- The change of a payout address that is announced. An empty next_address removes the address. The change
-- holds from next_at on, also before somebody has moved it to the columns beside.
ALTER TABLE payout_address
    ADD COLUMN next_network text,
    ADD COLUMN next_address text,
    ADD COLUMN next_at      timestamptz,
    ADD COLUMN next_by      text; -- the e-mail address of the owner
CREATE VIEW current_payout_address AS
    SELECT merchant_id, mode, currency,
           CASE WHEN next_at <= clock_timestamp() THEN next_network ELSE network END AS network,
           CASE WHEN next_at <= clock_timestamp() THEN next_address ELSE address END AS address
    FROM payout_address WHERE next_at IS NULL OR next_at > clock_timestamp() OR next_address <> '';

-- +goose Down
DROP VIEW current_payout_address;
ALTER TABLE payout_address DROP COLUMN next_by, DROP COLUMN next_at, DROP COLUMN next_address, DROP COLUMN next_network;
DROP TABLE password_reset, mail;
