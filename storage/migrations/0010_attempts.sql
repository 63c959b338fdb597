-- +goose Up
-- A delivery's row alone says what the next try of its activity does. Runs of older builds do not write
-- these columns, and nothing reads them of such runs.
ALTER TABLE webhook_delivery
    ADD COLUMN attempts integer NOT NULL DEFAULT 0, -- noted in the last run
    ADD COLUMN counted  integer NOT NULL DEFAULT 0; -- of these, those that Temporal's retry policy has counted
UPDATE webhook_delivery d SET attempts = a.number, counted = a.number
    FROM (SELECT delivery_id, run, max(number) AS number FROM webhook_attempt GROUP BY delivery_id, run) a
    WHERE d.status = 'pending' AND a.delivery_id = d.id AND a.run = d.run;

-- +goose Down
ALTER TABLE webhook_delivery DROP COLUMN counted, DROP COLUMN attempts;
