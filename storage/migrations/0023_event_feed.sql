-- +goose NO TRANSACTION
-- +goose Up
-- The order of the feed of events: the transaction that stored an event, then its id. The feed withholds what is
-- not older than every open transaction, so it never shows an event before one that it has shown. Events of before
-- have 0 and come first, by id. The build of before inserts rows with the defaults.
ALTER TABLE event ADD COLUMN IF NOT EXISTS feed_era integer NOT NULL DEFAULT 0,
    ADD COLUMN IF NOT EXISTS commit_xid xid8 NOT NULL DEFAULT '0';
ALTER TABLE event ALTER COLUMN commit_xid SET DEFAULT pg_current_xact_id();
-- Another cluster counts its transactions anew, as after the restore of a dump: an era of its own. It is the default
-- of event.feed_era too.
ALTER TABLE installation ADD COLUMN IF NOT EXISTS feed_era integer NOT NULL DEFAULT 0;

SET lock_timeout = '30min';
DROP INDEX CONCURRENTLY IF EXISTS event_feed;
CREATE INDEX CONCURRENTLY event_feed ON event (merchant_id, mode, feed_era, commit_xid, id);
RESET lock_timeout;

-- +goose Down
DROP INDEX event_feed;
ALTER TABLE installation DROP COLUMN feed_era;
ALTER TABLE event DROP COLUMN commit_xid, DROP COLUMN feed_era;
