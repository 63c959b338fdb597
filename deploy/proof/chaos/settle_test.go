package main

import (
	"bytes"
	"context"
	"io"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/proof/chaos/invariant"
	"example.com/checkout/storage"
	"example.com/checkout/storage/pgtemp"
)

// TestSettle_SaysWhatDoesNotComeToRest has a pending session whose merchant this run does not know.
func TestSettle_SaysWhatDoesNotComeToRest(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	url := pgtemp.ForTest(t, storage.Migrate)
	newDatabase(t, url)
	c := &chaos{
		runOptions: runOptions{wait: time.Second, within: time.Minute}, rig: &rig{databaseURL: url}, out: &out,
		exits: []string{"worker 1"},
	}
	r := runReport{}
	require.NoError(t, c.settle(t.Context(), time.Now().Add(-time.Hour), &r))
	require.Equal(t, "1 pending sessions", r.Rest.Restless)
	require.Contains(t, out.String(), "not at rest: 1 pending sessions")
	require.True(t, c.quietReceivers.Load(), "receivers stop misbehaving")
	require.Equal(t, []string{"worker 1"}, r.Rest.UnwishedExits)
	require.Equal(t, time.Minute, r.Rest.Within)

	c.exec(t, `UPDATE checkout_session SET status = 'expired', ended_at = now()`)
	out.Reset()
	r = runReport{}
	require.NoError(t, c.settle(t.Context(), time.Now().Add(-time.Hour), &r))
	require.Empty(t, r.Rest.Restless)
	require.GreaterOrEqual(t, r.Rest.After, time.Hour)
	require.Contains(t, out.String(), "at rest 1h")
}

// exec changes the database behind the run's back.
func (c *chaos) exec(t *testing.T, sql string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), c.rig.databaseURL)
	require.NoError(t, err)
	defer conn.Close(context.WithoutCancel(t.Context()))
	_, err = conn.Exec(t.Context(), sql)
	require.NoError(t, err)
}

// deliveries are one that waits too long, one on hold, one that is due soon and one that is being sent.
const deliveries = `
	INSERT INTO master_key (id, check_value) VALUES ('k1', 'x');
	INSERT INTO webhook_endpoint (id, merchant_id, mode, url, events, status, master_key_id, sealed_digest, created_at)
	VALUES ('wh_1', 'mer_1', 'test', 'http://shop/', '{checkout.failed}', 'enabled', 'k1', 'x', now());
	INSERT INTO event (id, merchant_id, mode, type, subject_id, created_at, body)
	SELECT 'evt_' || i, 'mer_1', 'test', 'merchant.updated', 'mer_' || i, now(), 'x' FROM generate_series(1, 4) i;
	INSERT INTO webhook_delivery (id, event_id, merchant_id, mode, endpoint_id, url, status, run, run_id, next_attempt_at, held, sending_until, created_at)
	SELECT 'whd_0000000000000000000000000' || i, 'evt_' || i, 'mer_1', 'test', 'wh_1', 'http://shop/', 'pending', 1, 'r',
		now() + wait, held, now() + sending, now()
	FROM (VALUES (1, interval '1 h', false, NULL::interval), (2, '1 h', true, NULL), (3, '5 s', false, NULL), (4, '-1 h', false, '20 s'))
		d (i, wait, held, sending)`

func TestBringToRest_HastensAndResumesDeliveries(t *testing.T) {
	t.Parallel()
	c, steps := newSteered(t)
	c.rig.databaseURL = pgtemp.ForTest(t, storage.Migrate)
	newDatabase(t, c.rig.databaseURL)
	c.exec(t, `DELETE FROM checkout_session`)
	c.exec(t, deliveries)
	conn, err := pgx.Connect(t.Context(), c.rig.databaseURL)
	require.NoError(t, err)
	defer conn.Close(context.WithoutCancel(t.Context()))

	left, err := c.longestRetry(t.Context(), conn)
	require.NoError(t, err)
	require.Equal(t, 40*time.Second, left, "at most the longest delay, and the rest of the schedule")
	hastened, err := c.bringToRest(t.Context(), conn)
	require.NoError(t, err)
	require.Zero(t, hastened, "the API did not say that it accepted it")
	require.ElementsMatch(t, []string{
		"whd_00000000000000000000000001 retry_now", "whd_00000000000000000000000002 resume",
	}, []string{<-steps, <-steps})
	require.Empty(t, steps)
}

// TestCheck_WaitsAsLongAsItMay is the wait before a check.
func TestCheck_WaitsAsLongAsItMay(t *testing.T) {
	t.Parallel()
	url := pgtemp.ForTest(t, storage.Migrate)
	newDatabase(t, url)
	var out bytes.Buffer
	o := checkOptions{
		sources: invariant.Sources{DatabaseURL: url, Progress: func(text string) { _, _ = io.WriteString(&out, text+"\n") }},
	}
	words, err := settle(t.Context(), o)
	require.NoError(t, err)
	require.Empty(t, words, "a session that may still be paid is at rest")

	c := &chaos{rig: &rig{databaseURL: url}}
	c.exec(t, `UPDATE checkout_session SET expires_at = now() - interval '1 s', created_at = now() - interval '1 h' WHERE status = 'pending'`)
	words, err = settle(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, "1 pending sessions whose time is over", words)
	require.Empty(t, out.String(), "without -wait it does not wait")

	ctx, cancel := context.WithCancel(t.Context())
	o.wait, o.sources.Progress = time.Hour, func(string) { cancel() }
	_, err = settle(ctx, o)
	require.ErrorIs(t, err, context.Canceled)

	o.sources.Progress = func(string) { c.exec(t, `UPDATE checkout_session SET status = 'expired', ended_at = now()`) }
	words, err = settle(t.Context(), o)
	require.NoError(t, err)
	require.Empty(t, words)
}
