-- +goose Up
-- The requests to the REST API with a valid key. They are written in batches after the answers; nothing else
-- depends on a row, so none refers to another table.
CREATE TABLE api_request (
    id          text NOT NULL, -- of the row: callers choose request ids
    merchant_id text NOT NULL,
    mode        text NOT NULL,
    request_id  text NOT NULL,
    key_id      text NOT NULL,
    method      text NOT NULL,
    route       text NOT NULL, -- the template, such as /v1/checkout/{id}
    status      smallint NOT NULL,
    error       text NOT NULL, -- code of the answer, '' without an error
    duration_ms integer NOT NULL,
    created_at  timestamptz NOT NULL, -- when the request came
    PRIMARY KEY (merchant_id, mode, id)
);
CREATE INDEX api_request_request ON api_request (merchant_id, mode, request_id);
CREATE INDEX api_request_key ON api_request (merchant_id, mode, key_id, id);
CREATE INDEX api_request_refused ON api_request (merchant_id, mode, id) WHERE status >= 400;
CREATE INDEX api_request_age ON api_request (created_at);

-- +goose Down
DROP TABLE api_request;
