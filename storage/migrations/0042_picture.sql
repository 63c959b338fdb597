-- +goose Up
-- Pictures of line items. A worker fetches each once a day at most; the hosted page serves the copy.
CREATE TABLE picture (
    id           text PRIMARY KEY, -- also the id of the run that fetches it; a new fetch has a new id
    merchant_id  text NOT NULL REFERENCES merchant,
    mode         text NOT NULL CHECK (mode IN ('test', 'live')),
    url          text NOT NULL, -- may hold a token
    url_digest   bytea NOT NULL CHECK (octet_length(url_digest) = 32), -- SHA-256 of url
    status       text NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'ready', 'failed')),
    tries        smallint NOT NULL DEFAULT 0,
    failure      text, -- why it failed
    content_type text CHECK (content_type IN ('image/jpeg', 'image/png')),
    content      bytea CHECK (octet_length(content) <= 262144),
    width        smallint,
    height       smallint,
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(), -- of this fetch
    fetched_at   timestamptz, -- the end of the fetch
    last_used_at timestamptz NOT NULL DEFAULT clock_timestamp(), -- by a new session, to the hour
    CONSTRAINT picture_url_key UNIQUE (merchant_id, mode, url_digest),
    CONSTRAINT picture_result_check CHECK (
        (status = 'ready') = (num_nonnulls(content_type, content, width, height) = 4)
        AND (status = 'failed') = (failure IS NOT NULL) AND (status = 'pending') = (fetched_at IS NULL))
);
CREATE INDEX picture_pending ON picture (merchant_id, mode) WHERE status = 'pending';
CREATE INDEX picture_last_used ON picture (last_used_at);

-- +goose Down
DROP TABLE picture;
