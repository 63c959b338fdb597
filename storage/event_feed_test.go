package storage_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// feed returns the ids behind after.
func (f fixture) feed(t *testing.T, after string, limit int) (ids []string) {
	t.Helper()
	got, err := f.EventFeed(t.Context(), f.merchant.Owner(checkout.ModeTest), after, limit)
	require.NoError(t, err)
	for _, e := range got {
		ids = append(ids, e.ID)
	}
	return ids
}

// feedOf waits until the feed has n events: a transaction of another test's database may hold it up.
func (f fixture) feedOf(t *testing.T, n int) (ids []string) {
	t.Helper()
	require.Eventually(t, func() bool { ids = f.feed(t, "", 100); return len(ids) == n }, feedPatience, 5*time.Millisecond)
	return ids
}

func TestEventFeed_NoEventIsMissedOrRepeated(t *testing.T) {
	t.Parallel()
	const creators, each = 9, 80
	f := newFixture(t)
	e := f.endpoint(t, "https://shop.example/hook", webhook.PayoutSent)
	var creating errgroup.Group
	for range creators {
		creating.Go(func() error {
			for range each {
				_, _, err := f.PublishTest(t.Context(), storage.TestEvent{
					Owner: e.Owner, EndpointID: e.ID, SubjectID: checkout.NewID(checkout.PrefixTest), Type: webhook.PayoutSent,
					Data: func(time.Time) any { return map[string]string{} },
				})
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	created := make(chan error, 1)
	go func() { created <- creating.Wait() }()

	seen := map[string]bool{}
	after := ""
	for end := time.Now().Add(10 * feedPatience); len(seen) < creators*each && time.Now().Before(end); {
		for _, id := range f.feed(t, after, 100) {
			require.False(t, seen[id], "%s came twice", id)
			seen[id], after = true, id
		}
		select {
		case err := <-created: // what is missing now must still come
			require.NoError(t, err)
			end = time.Now().Add(feedPatience)
		default:
		}
	}
	require.Zero(t, creators*each-len(seen), "missed events")
}

func TestEventFeed_WaitsForOlderTransactions(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	e := f.endpoint(t, "https://shop.example/hook", webhook.PayoutSent)
	conn, err := pgx.Connect(t.Context(), f.url)
	require.NoError(t, err)
	defer func() { _ = conn.Close(context.Background()) }()
	tx, err := conn.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `SELECT pg_current_xact_id()`)
	require.NoError(t, err)

	event, _ := f.publishTest(t, e, webhook.PayoutSent)
	require.Empty(t, f.feed(t, "", 100), "the open transaction may still store an event that comes before")
	late := checkout.NewID(checkout.PrefixEvent)
	_, err = tx.Exec(t.Context(), `
		INSERT INTO event (id, merchant_id, mode, type, subject_id, created_at, body)
		SELECT $1, merchant_id, mode, type, $1, created_at, body FROM event WHERE id = $2`, late, event.ID)
	require.NoError(t, err)
	require.NoError(t, tx.Commit(t.Context()))
	require.Equal(t, []string{late, event.ID}, f.feedOf(t, 2))
	require.Equal(t, []string{event.ID}, f.feed(t, late, 100))
	require.Empty(t, f.feed(t, event.ID, 100))

	for _, owner := range []checkout.Owner{
		f.merchant.Owner(checkout.ModeLive), {MerchantID: checkout.NewID(checkout.PrefixMerchant), Mode: checkout.ModeTest},
	} {
		got, err := f.EventFeed(t.Context(), owner, "", 100)
		require.NoError(t, err)
		require.Empty(t, got)
		_, err = f.EventFeed(t.Context(), owner, late, 100)
		require.ErrorIs(t, err, checkout.ErrNotFound)
	}
}

func TestEventFeed_BeginsAnewAfterADump(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	e := f.endpoint(t, "https://shop.example/hook", webhook.PayoutSent)
	one, _ := f.publishTest(t, e, webhook.PayoutSent)
	two, _ := f.publishTest(t, e, webhook.PayoutSent)
	f.exec(t, `UPDATE event SET commit_xid = (commit_xid::text::numeric + 1000000000)::text::xid8`)
	require.Empty(t, f.feed(t, "", 100))
	require.NoError(t, storage.Migrate(t.Context(), f.url))
	require.Equal(t, []string{one.ID, two.ID}, f.feed(t, "", 100))
	three, _ := f.publishTest(t, e, webhook.PayoutSent)
	require.NoError(t, storage.Migrate(t.Context(), f.url))
	require.NotEqual(t, "0", f.query(t, `SELECT commit_xid::text FROM event WHERE id = $1`, three.ID), "once is enough")
	require.Equal(t, []string{one.ID, two.ID, three.ID}, f.feedOf(t, 3))
}

func TestEventFeed_HasAnIndex(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	conn, err := pgx.Connect(t.Context(), f.url)
	require.NoError(t, err)
	defer func() { _ = conn.Close(context.Background()) }()
	_, err = conn.Exec(t.Context(), `SET enable_seqscan = off; SET enable_sort = off`)
	require.NoError(t, err)
	query := strings.NewReplacer("$1", "'m'", "$2", "'test'", "$3", "'5'", "$4", "'evt_1'", "$5", "10").Replace(storage.EventFeedQuery)
	rows, err := conn.Query(t.Context(), `EXPLAIN `+query)
	require.NoError(t, err)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	plan := strings.Join(lines, "\n")
	require.Contains(t, plan, "event_feed")
	require.Contains(t, plan, "ROW(commit_xid, id) >")
	require.NotContains(t, plan, "Filter")
	require.NotContains(t, plan, "Sort")
}
