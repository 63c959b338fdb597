-- +goose Up
-- Limits of the attempts to a registration in each worker process. NULL is the default.
ALTER TABLE webhook_endpoint ADD COLUMN max_in_flight integer, ADD COLUMN rate_limit integer;
-- Every row has NULL in both columns, so there is nothing to validate.
ALTER TABLE webhook_endpoint
    ADD CONSTRAINT webhook_endpoint_max_in_flight_check CHECK (max_in_flight BETWEEN 1 AND 1000) NOT VALID,
    ADD CONSTRAINT webhook_endpoint_rate_limit_check CHECK (rate_limit BETWEEN 1 AND 1000) NOT VALID;
