package service

import (
	"context"
	"log/slog"
	"os"
	"strconv"
	"time"

	"example.com/checkout/activities"
	"example.com/checkout/activities/sandbox"
	"example.com/checkout/deploy/config"
	"example.com/checkout/worker"
	"example.com/checkout/workflows/runs"
	"example.com/checkout/workflows/webhook"
)

// Worker runs the workflows and activities until ctx ends. It waits for
// Temporal and PostgreSQL.
func Worker(ctx context.Context, cfg config.Config) error {
	store, err := OpenStore(ctx, cfg)
	if err != nil {
		return err
	}
	defer store.Close()
	temporal, err := AwaitTemporal(ctx, cfg)
	if err != nil {
		return err
	}
	defer temporal.Close()

	if err := quietSlowTasks(); err != nil {
		return err
	}
	flows := &runs.Client{Temporal: temporal}
	cards := &sandbox.CardNetwork{Store: store, ChallengeURL: cfg.PageURL + challengePath, SettleAfter: sandbox.DefaultSettleAfter}
	workers, err := worker.Start(temporal, worker.Options{
		Payments: &activities.Payments{
			Store: store, CheckoutURL: cfg.PageURL,
			Test: activities.Networks{Cards: cards, Payouts: &sandbox.PayoutNetwork{Store: store}},
		},
		Deliveries:   activities.NewDeliveries(store, activities.NewAddressGuard(cfg.AllowLoopback), cfg.TestSchedule),
		Housekeeping: &activities.Housekeeping{Store: store, Runs: flows},
		BuildID:      cfg.BuildID,
	})
	if err != nil {
		return err
	}
	defer workers.Stop()
	slog.InfoContext(ctx, "worker polls")

	err = wait(ctx, "Temporal's schedules", func() error {
		return flows.EnsureSchedules(ctx, runs.Schedules{ReconcileEvery: cfg.ReconcileEvery, Retention: cfg.DeliveryRetention})
	}, func(error) bool { return ctx.Err() == nil })
	if err != nil {
		return err
	}
	cards.RunCallbacks(ctx, flows.SignalComplete)
	return nil
}

// slowTask is the variable with which Temporal's SDK learns after how many seconds
// a workflow task is worth a warning.
const slowTask = "TEMPORAL_WORKFLOW_TASK_DURATION_WARN_SECONDS"

// quietSlowTasks keeps the SDK from warning of each receiver that takes long over a
// first attempt, which is made within a workflow task: the attempt has its own line
// in the log. An operator's own setting stays.
func quietSlowTasks() error {
	if os.Getenv(slowTask) != "" {
		return nil
	}
	return os.Setenv(slowTask, strconv.Itoa(int((webhook.AttemptTimeout + 3*time.Second).Seconds())))
}
