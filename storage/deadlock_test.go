package storage_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"example.com/checkout/workflows/webhook"
)

// TestNoDeadlock_OfAnAttemptThatEndsAndBeginsAgain calls what a worker that was believed dead calls, and the worker
// after it. When two transactions deadlock, both hang for a second. Then PostgreSQL ends one of them with an error.
func TestNoDeadlock_OfAnAttemptThatEndsAndBeginsAgain(t *testing.T) {
	f := newFixture(t)
	e := f.endpoint(t, "https://shop.example/a", webhook.MerchantUpdated)
	for n := range 200 {
		_, d := f.publishTest(t, e, webhook.MerchantUpdated)
		f.begin(t, d, "run-a", 1)
		var workers errgroup.Group
		workers.Go(func() error { return f.Webhooks.FinishAttempt(t.Context(), d, refused(1, 1), time.Hour) })
		workers.Go(func() error {
			if err := f.Webhooks.HurryAttempt(t.Context(), d, "run-a", time.Time{}); err != nil {
				return err
			}
			_, err := f.Webhooks.BeginAttempt(t.Context(), d, webhook.Turn{RunID: "run-a", Try: 1})
			return err
		})
		require.NoError(t, workers.Wait(), "round %d", n)
	}
}
