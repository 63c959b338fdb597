-- +goose NO TRANSACTION
-- +goose Up
-- The transaction that stored an event. A feed in this order, which withholds what is not older than every open
-- transaction, never shows an event before one that it has shown. Events of before have 0 and come first, by id.
SET lock_timeout = '30min';
ALTER TABLE event ADD COLUMN IF NOT EXISTS commit_xid xid8 NOT NULL DEFAULT '0';
ALTER TABLE event ALTER COLUMN commit_xid SET DEFAULT pg_current_xact_id();
DROP INDEX CONCURRENTLY IF EXISTS event_feed;
CREATE INDEX CONCURRENTLY event_feed ON event (merchant_id, mode, commit_xid, id);
RESET lock_timeout;

-- +goose Down
DROP INDEX event_feed;
ALTER TABLE event DROP COLUMN commit_xid;
