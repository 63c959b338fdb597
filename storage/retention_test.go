package storage_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

func TestDeleteFinished_RemovesWhatEndedLongAgoAndNothingElse(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	e := f.endpoint(t, "https://shop.example/a", webhook.MerchantUpdated)
	const age = 24 * time.Hour
	old := func(ref checkout.Ref, ended bool) checkout.Ref {
		id := checkout.FirstID(checkout.PrefixDelivery, time.Now().Add(-72*time.Hour))[:14] + ref.ID[14:]
		f.exec(t, `ALTER TABLE webhook_attempt DISABLE TRIGGER ALL`)
		f.exec(t, `ALTER TABLE webhook_delivery DISABLE TRIGGER ALL`)
		f.exec(t, `UPDATE webhook_attempt SET delivery_id = $1 WHERE delivery_id = $2`, id, ref.ID)
		f.exec(t, `UPDATE webhook_delivery SET id = $1, created_at = created_at - interval '72 hours' WHERE id = $2`, id, ref.ID)
		f.exec(t, `ALTER TABLE webhook_attempt ENABLE TRIGGER ALL`)
		f.exec(t, `ALTER TABLE webhook_delivery ENABLE TRIGGER ALL`)
		ref.ID = id
		if ended {
			f.exec(t, `UPDATE webhook_delivery SET finished_at = finished_at - interval '72 hours' WHERE id = $1`, id)
		}
		return ref
	}
	end := func(ref checkout.Ref) {
		f.begin(t, ref, "run-"+ref.ID, 1)
		require.NoError(t, f.FinishAttempt(t.Context(), ref, refused(1, 1), 0))
		_, err := f.EndDelivery(t.Context(), ref, "", webhook.DeliveryFailed)
		require.NoError(t, err)
	}
	_, ref := f.publishTest(t, e, webhook.PayoutSent)
	end(ref)
	gone := old(ref, true)
	_, ref = f.publishTest(t, e, webhook.PayoutSent)
	end(ref)
	fresh := old(ref, false) // an old delivery whose replay ended just now
	_, ref = f.publishTest(t, e, webhook.PayoutSent)
	f.begin(t, ref, "run", 1)
	unfinished := old(ref, false)
	_, young := f.publishTest(t, e, webhook.PayoutSent)
	end(young)

	n, err := f.DeleteFinished(t.Context(), age, 100)
	require.NoError(t, err)
	require.EqualValues(t, 1, n)
	_, err = f.Delivery(t.Context(), gone)
	require.ErrorIs(t, err, checkout.ErrNotFound)
	for _, kept := range []checkout.Ref{fresh, unfinished, young} {
		require.Len(t, f.read(t, kept).Attempts, 1)
	}
	require.EqualValues(t, 3, f.query(t, `SELECT count(*) FROM webhook_attempt`))
	require.EqualValues(t, 3, f.query(t, `SELECT count(*) FROM event`), "its event went with it")
	n, err = f.DeleteFinished(t.Context(), age, 100)
	require.NoError(t, err)
	require.Zero(t, n)

	// An event without a delivery: the merchant had no registration.
	f.exec(t, `DELETE FROM webhook_attempt WHERE delivery_id = $1`, young.ID)
	f.exec(t, `DELETE FROM webhook_delivery WHERE id = $1`, young.ID)
	_, n, err = f.DeleteUnsentEvents(t.Context(), age, "", 100)
	require.NoError(t, err)
	require.Zero(t, n, "it is not that old")
	f.exec(t, `ALTER TABLE event DISABLE TRIGGER ALL`)
	f.exec(t, `UPDATE event SET id = $1 || substr(id, 15), created_at = created_at - interval '72 hours'
		WHERE id NOT IN (SELECT event_id FROM webhook_delivery)`, checkout.FirstID(checkout.PrefixEvent, time.Now().Add(-72*time.Hour))[:14])
	f.exec(t, `ALTER TABLE event ENABLE TRIGGER ALL`)
	last, n, err := f.DeleteUnsentEvents(t.Context(), age, "", 100)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	last, n, err = f.DeleteUnsentEvents(t.Context(), age, last, 100)
	require.NoError(t, err)
	require.Zero(t, n)
	require.Empty(t, last)
	require.EqualValues(t, 2, f.query(t, `SELECT count(*) FROM event`))
}

func TestDeleteFinished_TakesTheLimitAtATime(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	e := f.endpoint(t, "https://shop.example/a", webhook.MerchantUpdated)
	for range 5 {
		_, ref := f.publishTest(t, e, webhook.PayoutSent)
		_, err := f.EndDelivery(t.Context(), ref, "", webhook.DeliveryFailed)
		require.NoError(t, err)
	}
	var total int
	for range 10 {
		n, err := f.DeleteFinished(t.Context(), 0, 2)
		require.NoError(t, err)
		require.LessOrEqual(t, n, 2)
		total += n
		if n == 0 {
			break
		}
	}
	require.Equal(t, 5, total)
	require.EqualValues(t, 0, f.query(t, `SELECT count(*) FROM event`))
}
