-- +goose Up
-- Who has the live log of a merchant's deliveries open, in any process. PostgreSQL lets transactions that
-- notify commit one after the other, each with a write to the disk of its own, so a change is told only
-- while somebody looks, and at most once a second: who is told looks at once, and again a while later.
CREATE UNLOGGED TABLE delivery_watch (
    merchant_id text NOT NULL,
    mode        text NOT NULL,
    until       timestamptz NOT NULL, -- whoever still looks renews it
    told_at     timestamptz NOT NULL,
    PRIMARY KEY (merchant_id, mode)
);

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION tell_delivery() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    -- A row that is locked is being told by somebody else; no delivery waits for that.
    PERFORM FROM delivery_watch w WHERE w.merchant_id = NEW.merchant_id AND w.mode = NEW.mode
        AND w.until > clock_timestamp() AND w.told_at < clock_timestamp() - interval '1 second' FOR UPDATE SKIP LOCKED;
    IF FOUND THEN
        UPDATE delivery_watch w SET told_at = clock_timestamp() WHERE w.merchant_id = NEW.merchant_id AND w.mode = NEW.mode;
        PERFORM pg_notify('delivery', NEW.merchant_id || ' ' || NEW.mode);
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION tell_delivery() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('delivery', NEW.merchant_id || ' ' || NEW.mode || ' ' || NEW.id);
    RETURN NULL;
END $$;
-- +goose StatementEnd
DROP TABLE delivery_watch;
