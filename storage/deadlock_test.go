package storage_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// When two transactions deadlock, both hang for a second. Then PostgreSQL ends one of them with an error.
func TestLocks_NobodyWaitsForEachOther(t *testing.T) {
	t.Parallel()
	for name, round := range map[string]func(t *testing.T, f fixture, e webhook.Endpoint) []func(context.Context) error{
		"a secret is rotated and settings change": rotateAndSettings,
		"an attempt ends and begins again":        endAndBeginAgain,
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			e := f.endpoint(t, "https://shop.example/a", webhook.MerchantUpdated)
			for n := range 200 {
				var group errgroup.Group
				for _, do := range round(t, f, e) {
					group.Go(func() error { return do(context.Background()) })
				}
				require.NoError(t, group.Wait(), "round %d", n)
			}
		})
	}
}

func rotateAndSettings(_ *testing.T, f fixture, e webhook.Endpoint) []func(context.Context) error {
	return []func(context.Context) error{
		func(ctx context.Context) error {
			_, err := f.Webhooks.RotateSecret(ctx, e.Ref, webhook.NewSecret(), time.Hour, f.note())
			return err
		},
		func(ctx context.Context) error {
			name := checkout.NewID("name") // a new name each time
			_, err := f.Merchants.ChangeMerchant(ctx, storage.MerchantChange{MerchantID: f.merchant.ID, Mode: e.Mode, Name: &name, By: f.note()})
			return err
		},
	}
}

// endAndBeginAgain returns the calls of a worker that was believed dead and of the worker after it.
func endAndBeginAgain(t *testing.T, f fixture, e webhook.Endpoint) []func(context.Context) error {
	_, d := f.publishTest(t, e, webhook.MerchantUpdated)
	f.begin(t, d, "run-a", 1)
	return []func(context.Context) error{
		func(ctx context.Context) error { return f.Webhooks.FinishAttempt(ctx, d, refused(1, 1), time.Hour) },
		func(ctx context.Context) error {
			if err := f.Webhooks.HurryAttempt(ctx, d, "run-a", time.Time{}); err != nil {
				return err
			}
			_, err := f.Webhooks.BeginAttempt(ctx, d, webhook.Turn{RunID: "run-a", Try: 1})
			return err
		},
	}
}
