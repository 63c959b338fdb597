package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/client"

	"example.com/checkout/deploy/program/config"
	"example.com/checkout/storage"
	"example.com/checkout/worker"
	"example.com/checkout/workflows/contract"
	"example.com/checkout/workflows/runs"
)

// setupPatience limits the wait for a Temporal that is not ready or not reachable.
const setupPatience = 3 * time.Minute

// Setup makes everything that the processes need outside themselves: the database's schema, and in
// Temporal the namespace, its search attributes and the schedules. What is there stays. Each step is
// told to say when it is done, and the wait for Temporal before. It returns a runs.NotAllowedError, and a
// worker.UnreadableRunsError with the steps to take.
func Setup(ctx context.Context, cfg config.Setup, report func(done string)) error {
	if err := storage.Migrate(ctx, cmp.Or(cfg.Pooler.DirectURL, cfg.DatabaseURL)); err != nil {
		return err
	}
	report("the database's schema is up to date")
	if cfg.Cell != "" {
		if err := setCell(ctx, cfg); err != nil {
			return err
		}
		report("new ids and keys name the cell " + string(cfg.Cell))
	}

	options, err := temporalOptions(cfg.Temporal)
	if err != nil {
		return err
	}
	temporal, err := client.NewLazyClient(options)
	if err != nil {
		return err
	}
	defer temporal.Close()
	ctx, stop := context.WithTimeoutCause(ctx, setupPatience,
		fmt.Errorf("not done after %v: is Temporal running at TEMPORAL_ADDRESS?", setupPatience))
	defer stop()

	report(fmt.Sprintf("connecting to Temporal at %s (TEMPORAL_ADDRESS), for %v at most",
		cfg.Temporal.Address, setupPatience))
	client := &runs.Client{Temporal: temporal}
	if err := client.EnsureNamespace(ctx, cfg.Temporal.Namespace); err != nil {
		return fmt.Errorf("Temporal at %s: %w", cfg.Temporal.Address, err) //nolint:staticcheck // ST1005: a name
	}
	report(fmt.Sprintf("Temporal has the namespace %s and its search attributes", cfg.Temporal.Namespace))

	open := openRuns(temporal, cfg.Temporal)
	err = wait(ctx, "Temporal", func() error { return setUpOver(ctx, open, cfg.RestartRuns, report) },
		func(err error) bool { return !errors.As(err, new(worker.UnreadableRunsError)) })
	if err != nil {
		return err
	}

	err = wait(ctx, "Temporal", func() error { return client.EnsureSchedules(ctx, schedules(cfg)) },
		func(error) bool { return true })
	if err != nil {
		return err
	}
	report("Temporal has the schedules")
	if !cfg.LeanVisibility {
		return nil
	}
	undo, err := LeanVisibility(ctx, cfg.VisibilityURL)
	report(fmt.Sprintf("-- Dropped %d indexes of Temporal's visibility table. These statements recreate them:", len(undo)))
	for _, statement := range undo {
		report(statement)
	}
	return err
}

func schedules(cfg config.Setup) runs.Schedules {
	return runs.Schedules{
		ReconcileEvery: cfg.Schedules.ReconcileEvery,
		Retention: contract.RetentionInput{
			Age: cfg.Schedules.DeliveryRetention, Session: cfg.Schedules.SessionRetention,
			Audit: cfg.Schedules.AuditRetention, Sandbox: cfg.Schedules.SandboxRetention,
			Request: cfg.Schedules.RequestRetention,
		},
		Cards: cfg.Cards(), Chains: cfg.Chains(),
	}
}

func setCell(ctx context.Context, cfg config.Setup) error {
	keyless, err := storage.OpenKeyless(ctx, storage.Options{URL: cfg.DatabaseURL, Pooled: cfg.Pooler.Kind != ""})
	if err != nil {
		return err
	}
	defer keyless.Close()
	return keyless.SetCell(ctx, cfg.Cell)
}
