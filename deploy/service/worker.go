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
	"example.com/checkout/workflows/checkout"
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
	temporal, err := AwaitTemporal(ctx, cfg.Temporal)
	if err != nil {
		return err
	}
	defer temporal.Close()

	if err := quietSlowTasks(); err != nil {
		return err
	}
	flows := &runs.Client{Temporal: temporal}
	live, err := openNetworks(ctx, cfg.Live, store)
	if err != nil {
		return err
	}
	test, err := openNetworks(ctx, cfg.Test, store)
	if err != nil {
		return err
	}

	cards := &sandbox.CardNetwork{
		Store:        store,
		ChallengeURL: cfg.PageURL + challengePath,
		SettleAfter:  sandbox.DefaultSettleAfter,
	}
	options := worker.Options{
		Payments: &activities.Payments{
			Store: store, CheckoutURL: cfg.PageURL, Live: live.networks(activities.Networks{}),
			Test: test.networks(activities.SandboxNetworks(
				cards, activities.Chain{Rates: sandbox.Rates{}, Payouts: sandbox.NewPayouts(store)},
			)),
		},
		Deliveries: activities.NewDeliveries(
			store, activities.NewAddressGuard(cfg.AllowLoopback), cfg.TestSchedule,
		),
		Housekeeping: &activities.Housekeeping{Store: store, Runs: flows},
		Treasury:     activities.Treasury{Follow: map[checkout.Mode]activities.Follow{}},
		Books:        activities.Books{Store: store, Accounts: map[checkout.Mode]activities.Account{}},
		Deployment:   cfg.Temporal.DeploymentName,
		BuildID:      cfg.Temporal.BuildID,
	}
	note := reports(store, flows).Note
	live.follow(ctx, &options, note)
	test.follow(ctx, &options, note)
	workers, err := worker.Start(temporal, options)
	if err != nil {
		return err
	}
	defer workers.Stop()
	slog.InfoContext(ctx, "worker polls")
	tellMissingSchedules(ctx, flows, runs.Schedules{
		Chains: modesOf(cfg, func(n config.Networks) bool { return n.Chains }),
		Cards:  modesOf(cfg, func(n config.Networks) bool { return n.Cards }),
	})

	cards.RunCallbacks(ctx, flows.SignalComplete)
	return nil
}

// tellMissingSchedules logs an error when the settings need schedules that nobody made: then nothing
// follows the transfers, for example.
func tellMissingSchedules(ctx context.Context, flows *runs.Client, needed runs.Schedules) {
	missing, err := flows.MissingSchedules(ctx, needed)
	if len(missing) > 0 {
		slog.ErrorContext(ctx, "Temporal lacks schedules: run checkout setup with the same settings", "schedules", missing)
	}
	if err != nil {
		slog.WarnContext(ctx, "the schedules could not be checked", "error", err)
	}
}

// modesOf returns the modes whose networks have something.
func modesOf(cfg config.Config, has func(config.Networks) bool) (modes []checkout.Mode) {
	for _, n := range []config.Networks{cfg.Live, cfg.Test} {
		if has(n) {
			modes = append(modes, n.Mode)
		}
	}
	return modes
}

// quietSlowTasks raises the limit of config.SlowTask, unless an operator has set one. A first attempt is
// made within a workflow task, so each slow receiver would cause a warning. The attempt already
// has its own line in the log.
func quietSlowTasks() error {
	if os.Getenv(config.SlowTask) != "" {
		return nil
	}
	return os.Setenv(config.SlowTask, strconv.Itoa(int((webhook.AttemptTimeout + 3*time.Second).Seconds())))
}
