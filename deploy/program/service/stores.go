// Package service runs the two processes of the service. The API process serves the REST API, the
// hosted page and the dashboard. The worker runs the workflows and activities.
package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"google.golang.org/grpc"

	"example.com/checkout/api/health"
	"example.com/checkout/deploy/program/config"
	"example.com/checkout/deploy/program/telemetry"
	"example.com/checkout/storage"
	"example.com/checkout/storage/pg"
)

// OpenStore waits until PostgreSQL answers and opens it. It returns an error for a wrong master key, because the
// process would sign wrongly, for a schema that needs checkout setup, and for a pooler that the settings do not fit.
func OpenStore(ctx context.Context, cfg config.Config) (*storage.Store, error) {
	return openStore(ctx, cfg, func(err error) bool { return pg.Unavailable(err) && !pg.Misconfigured(err) })
}

// awaitStore is OpenStore for a process that stays: it also waits for the schema. State has what it waits for.
func awaitStore(ctx context.Context, cfg config.Config, state *health.State) (*storage.Store, error) {
	return openStore(ctx, cfg, func(err error) bool {
		for _, setup := range []error{pg.ErrSchemaTooOld, storage.ErrOtherCluster} {
			if errors.Is(err, setup) {
				state.SetWaiting(setup.Error())
				return true
			}
		}
		state.SetWaiting(waitsForStore)
		return pg.Unavailable(err) && !pg.Misconfigured(err)
	})
}

// waitsForStore is what a process waits for at first.
const waitsForStore = "waiting for PostgreSQL"

func openStore(ctx context.Context, cfg config.Config, passing func(error) bool) (*storage.Store, error) {
	options := storage.Options{
		URL: cfg.DatabaseURL, Pooled: cfg.Pooler.Kind != "", Keys: cfg.Keys, MaxConns: cfg.DatabaseMaxConns,
	}
	var store *storage.Store
	err := wait(ctx, "PostgreSQL", func() (err error) {
		store, err = storage.Open(ctx, options)
		return err
	}, passing)
	if errors.Is(err, pg.ErrWrongMasterKey) {
		err = fmt.Errorf("CHECKOUT_MASTER_KEYS: %w", err)
	}
	if errors.Is(err, pg.ErrPooler) {
		err = fmt.Errorf("DATABASE_URL needs CHECKOUT_DATABASE_POOLER and CHECKOUT_DATABASE_DIRECT_URL: %w", err)
	}
	return store, err
}

// DialTemporal connects to Temporal once.
func DialTemporal(ctx context.Context, cfg config.Temporal) (client.Client, error) {
	options, err := temporalOptions(cfg)
	if err != nil {
		return nil, err
	}
	temporal, err := client.DialContext(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("no answer from Temporal at %s: %w", cfg.Address, err)
	}
	return temporal, nil
}

// AwaitTemporal waits until Temporal answers and connects to it.
func AwaitTemporal(ctx context.Context, cfg config.Temporal) (client.Client, error) {
	options, err := temporalOptions(cfg)
	if err != nil {
		return nil, err
	}
	var temporal client.Client
	err = wait(ctx, fmt.Sprintf("Temporal at %s (TEMPORAL_ADDRESS)", cfg.Address), func() (err error) {
		temporal, err = client.DialContext(ctx, options)
		return err
	}, func(error) bool { return ctx.Err() == nil })
	return temporal, err
}

// windowBytes is how much Temporal may send before the client has read it: the largest message of Temporal.
const windowBytes = 4 << 20

// temporalOptions give Temporal's client the service's log and telemetry.
func temporalOptions(cfg config.Temporal) (client.Options, error) {
	options, err := cfg.Options()
	if err != nil {
		return client.Options{}, err
	}
	options.Logger = log.NewStructuredLogger(slog.Default())
	// No gzip: Temporal is near and its messages are small, so gzip would cost more than it saves.
	options.ConnectionOptions.GrpcCompression = &client.GrpcCompressionNone{}
	// Fixed windows: else gRPC measures the connection, with a ping and its answer for almost every response.
	options.ConnectionOptions.DialOptions = append(options.ConnectionOptions.DialOptions,
		grpc.WithStaticStreamWindowSize(windowBytes), grpc.WithStaticConnWindowSize(windowBytes))
	err = telemetry.Temporal(&options)
	return options, err
}

const waitInterval = time.Second

// wait is repeat with a line of the log for each error.
func wait(ctx context.Context, what string, try func() error, passing func(error) bool) error {
	return repeat(ctx, try, func(err error) bool {
		passes := passing(err)
		if passes {
			slog.WarnContext(ctx, "waiting for "+what, "error", err)
		}
		return passes
	})
}

// repeat repeats try until it succeeds, ctx ends, or the error does not pass.
func repeat(ctx context.Context, try func() error, passing func(error) bool) error {
	for {
		err := try()
		if err == nil || !passing(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w (last answer: %w)", context.Cause(ctx), err)
		case <-time.After(waitInterval):
		}
	}
}
