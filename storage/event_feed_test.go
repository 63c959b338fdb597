package storage_test

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"example.com/checkout/storage"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

var feedEvents = flag.Int("feed-events", 900, "events that a poller reads while they are created")

// feedPatience is how long a transaction of another test's database may hold the feed up.
const feedPatience = 30 * time.Second

// feed returns the ids behind after.
func (f fixture) feed(t *testing.T, after string, limit int) (ids []string) {
	for _, e := range must.Get(f.Webhooks.EventFeed(t.Context(), f.merchant.Owner(checkout.ModeTest), after, limit))(t) {
		ids = append(ids, e.ID)
	}
	return ids
}

// feedOf waits until the feed has n events: a transaction of another test's database may hold it up.
func (f fixture) feedOf(t *testing.T, n int) (ids []string) {
	require.Eventually(t, func() bool { ids = f.feed(t, "", 100); return len(ids) == n }, feedPatience, 5*time.Millisecond)
	return ids
}

// TestEventFeed_NoEventIsMissedOrRepeated reads the feed while transactions that store events stay open for
// differing times, so that their order of beginning, of ids and of ending differ. Some take an id long before they
// write, and some roll back.
func TestEventFeed_NoEventIsMissedOrRepeated(t *testing.T) {
	const creators = 9
	f := newFixture(t)
	var creating errgroup.Group
	for i := range creators {
		conn, share := f.Connect(t), (*feedEvents+i)/creators
		creating.Go(func() error { return must.Err(conn.Exec(t.Context(), fmt.Sprintf(createEvents, share, f.merchant.ID))) })
	}
	created := make(chan error, 1)
	go func() { created <- creating.Wait() }()

	seen, after := map[string]bool{}, ""
	polls, late := 0, 0
	for more := true; more; polls++ {
		select {
		case err := <-created:
			require.NoError(t, err)
			more = false
			require.Eventually(t, func() bool { // transactions of other tests may hold the end up
				return f.query(t, `SELECT coalesce(max(commit_xid), '0') < pg_snapshot_xmin(pg_current_snapshot()) FROM event`) == true
			}, feedPatience, 5*time.Millisecond)
		default:
		}
		for got := f.feed(t, after, 100); len(got) > 0; got = f.feed(t, after, 100) {
			for _, id := range got {
				require.False(t, seen[id], "%s came twice", id)
				if id < after {
					late++
				}
				seen[id], after = true, id
			}
		}
	}
	missed := int(f.query(t, `SELECT count(*) FROM event`).(int64)) - len(seen)
	t.Logf("%d events, %d creators, %d polls: %d missed, 0 repeated; %d came after one with a later id",
		len(seen), creators, polls, missed, late)
	require.Zero(t, missed, "missed events")
	require.Len(t, seen, *feedEvents)
}

// createEvents stores events, each in a transaction that stays open for up to 30 ms. Every tenth one is rolled back.
const createEvents = `DO $$ DECLARE event text; stored int := 0; BEGIN
	WHILE stored < %d LOOP
		event := 'evt_' || lpad((extract(epoch FROM clock_timestamp()) * 1000000)::bigint::text, 20, '0') || gen_random_uuid();
		IF random() < 0.5 THEN PERFORM pg_current_xact_id(); END IF; -- as an earlier write
		PERFORM pg_sleep(0.03 * random() * random());
		INSERT INTO event (id, merchant_id, mode, type, subject_id, created_at, body)
		VALUES (event, '%s', 'test', 'payout.sent', event, now(), '{"data":{}}');
		PERFORM pg_sleep(0.03 * random() * random());
		IF random() < 0.9 THEN COMMIT; stored := stored + 1; ELSE ROLLBACK; END IF;
	END LOOP;
END $$`

func TestEventFeed_WaitsForOlderTransactions(t *testing.T) {
	f := newFixture(t)
	e := f.endpoint(t, "https://shop.example/hook", webhook.PayoutSent)
	conn := f.Connect(t)
	tx := must.Get(conn.Begin(t.Context()))(t)
	must.Get(tx.Exec(t.Context(), `SELECT pg_current_xact_id()`))(t)

	event, _ := f.publishTest(t, e, webhook.PayoutSent)
	require.Empty(t, f.feed(t, "", 100), "the open transaction may still store an event that comes before")
	_, open, err := f.Webhooks.FeedHorizon(t.Context())
	require.NoError(t, err)
	require.True(t, open)
	late := checkout.NewID(checkout.PrefixEvent)
	_, err = tx.Exec(t.Context(), `
		INSERT INTO event (id, merchant_id, mode, type, subject_id, created_at, body)
		SELECT $1, merchant_id, mode, type, $1, created_at, body FROM event WHERE id = $2`, late, event.ID)
	require.NoError(t, err)
	require.NoError(t, tx.Commit(t.Context()))
	require.Equal(t, []string{late, event.ID}, f.feedOf(t, 2))
	require.Equal(t, []string{event.ID}, f.feed(t, late, 100))
	require.Empty(t, f.feed(t, event.ID, 100))

	for _, owner := range f.strangers() {
		require.Empty(t, must.Get(f.Webhooks.EventFeed(t.Context(), owner, "", 100))(t))
		require.ErrorIs(t, must.Err(f.Webhooks.EventFeed(t.Context(), owner, late, 100)), checkout.ErrNotFound)
	}
}

// The stored transactions are greater than what a new cluster has counted. The events must neither be withheld, nor
// change their order, nor come behind new ones.
func TestEventFeed_GoesOnInAnotherCluster(t *testing.T) {
	f := newFixture(t)
	e := f.endpoint(t, "https://shop.example/hook", webhook.PayoutSent)
	var old []string
	for range 3 {
		event, _ := f.publishTest(t, e, webhook.PayoutSent)
		old = append(old, event.ID)
	}
	old[1], old[2] = old[2], old[1] // its transaction was the younger one
	f.Exec(t, `UPDATE event SET commit_xid = ('1' || lpad(array_position($1, id)::text, 12, '0'))::xid8`, old)
	require.Empty(t, f.feed(t, "", 100))
	require.ErrorIs(t, must.Err(f.TryOpen(t, 0)), storage.ErrOtherCluster, "a process waits")

	for range 2 { // the second one has nothing to do
		require.NoError(t, storage.Migrate(t.Context(), f.URL))
		require.EqualValues(t, 1, f.query(t, `SELECT feed_era FROM installation`))
		require.Equal(t, old, f.feed(t, "", 100))
		require.Equal(t, old[2:], f.feed(t, old[1], 100), "who has read a part goes on there")
	}
	f.Open(t, 0)
	event, _ := f.publishTest(t, e, webhook.PayoutSent)
	require.Equal(t, append(old, event.ID), f.feedOf(t, 4))
	require.Equal(t, []string{event.ID}, f.feed(t, old[2], 100))
}

// A pg_dump and other readers have no transaction id.
func TestEventFeed_DoesNotWaitForReaders(t *testing.T) {
	f := newFixture(t)
	conn := f.Connect(t)
	tx := must.Get(conn.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead}))(t)
	must.Get(tx.Exec(t.Context(), `SELECT FROM event`))(t)
	e := f.endpoint(t, "https://shop.example/hook", webhook.PayoutSent)
	event, _ := f.publishTest(t, e, webhook.PayoutSent)
	require.Equal(t, []string{event.ID}, f.feedOf(t, 1))
}
