package storage_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/storage"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/books"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

func TestBacklog_CountsWhatWaits(t *testing.T) {
	f := newFixture(t)
	got := must.Get(f.Installation.Backlog(t.Context(), 0))(t)
	require.Empty(t, got)

	e := f.endpoint(t, "https://shop.example:8443/a", webhook.MerchantUpdated)
	late := f.create(t, f.newSession())
	f.create(t, f.newSession()) // has time left
	f.Exec(t, `UPDATE checkout_session SET expires_at = clock_timestamp() - interval '1 minute' WHERE id = $1`, late.ID)
	_, settled := f.pay(t, f.create(t, f.newSession()), checkout.ChargeResult{Outcome: checkout.OutcomeSucceeded})
	f.Exec(t, `UPDATE payout SET created_at = created_at - interval '1 hour', hold = 'float' WHERE id = $1`, settled.PayoutID)
	f.pay(t, f.create(t, f.newSession()), checkout.ChargeResult{Outcome: checkout.OutcomeSucceeded})
	f.publishTest(t, e, webhook.PayoutSent)
	_, later := f.publishTest(t, e, webhook.PayoutSent)
	require.NoError(t, f.Webhooks.DeferAttempt(t.Context(), later, time.Hour, 0))
	_, parked := f.publishTest(t, e, webhook.PayoutSent)
	require.NoError(t, f.Webhooks.HoldDelivery(t.Context(), parked))
	f.begin(t, parked, "run-a", 1)
	_, ended := f.publishTest(t, e, webhook.PayoutSent)
	f.end(t, ended, webhook.DeliveryFailed)

	must.Get(f.Books.OpenFinding(t.Context(), books.Finding{Mode: checkout.ModeTest, Kind: books.FindingCostDiffers, Subject: "pi_1"}))(t)

	got = must.Get(f.Installation.Backlog(t.Context(), 0))(t)
	for i := range got {
		if got[i].Hold == "float" {
			require.Greater(t, got[i].Oldest, time.Hour)
		}
		got[i].Oldest = 0
	}
	of := func(kind, hold string) storage.Backlog {
		return storage.Backlog{Kind: kind, Mode: checkout.ModeTest, Hold: hold, Count: 1}
	}
	require.ElementsMatch(t, []storage.Backlog{
		of(storage.BacklogSessionOverdue, ""), of(storage.BacklogDeliveryScheduled, ""), of(storage.BacklogDeliveryOverdue, ""),
		of(storage.BacklogDeliveryParked, ""), of(storage.BacklogPayout, "float"), of(storage.BacklogPayout, ""),
		of(storage.BacklogFinding, "cost_differs"),
	}, got)
	got = must.Get(f.Installation.Backlog(t.Context(), time.Hour))(t)
	require.NotContains(t, got, of(storage.BacklogSessionOverdue, ""), "the margin counts")
}

// Each part of the query has an index that holds only what waits.
func TestBacklog_ReadsNoWholeTable(t *testing.T) {
	f := newFixture(t)

	plan := f.plan(t, `SET enable_seqscan = off`, storage.BacklogQuery, time.Minute, storage.BacklogLimit)

	require.NotContains(t, plan, "Seq Scan")
}
