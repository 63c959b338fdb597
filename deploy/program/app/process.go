package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"example.com/checkout/api/action"
	"example.com/checkout/deploy/program/config"
	"example.com/checkout/deploy/program/service"
	"example.com/checkout/deploy/program/telemetry"
	"example.com/checkout/storage"
	"example.com/checkout/workflows/runs"
)

func (c *call) apiCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "api",
		Short: "Serve the REST API, the hosted page and the dashboard",
		Long: `Serves the REST API, the hosted page and the dashboard until it is stopped. It waits for PostgreSQL. It
starts without Temporal, and then answers what it can.`,
		Args: words(),
		RunE: c.configured(stays, func(ctx context.Context, cfg config.Config, _ string) error {
			return service.API(ctx, cfg)
		}),
	}
}

func (c *call) workerCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "worker",
		Short: "Run the workflows and activities",
		Long:  `Runs the workflows and activities until it is stopped. It waits for PostgreSQL and Temporal.`,
		Args:  words(),
		RunE: c.configured(stays, func(ctx context.Context, cfg config.Config, _ string) error {
			return service.Worker(ctx, cfg)
		}),
	}
}

// serviceAction is the work of a command that needs the service's whole configuration. id is the command's first
// argument, "" for a command without arguments.
type serviceAction func(ctx context.Context, cfg config.Config, id string) error

// The values of Stays: a process runs until it is stopped, or until its work is done.
const (
	stays = true
	ends  = false
)

// configured returns the RunE of a command that runs action with the service's configuration.
func (c *call) configured(stays bool, action serviceAction) func(*cobra.Command, []string) error {
	return func(command *cobra.Command, args []string) error {
		id := ""
		if len(args) > 0 {
			id = args[0]
		}
		c.work = func(ctx context.Context) error { return c.runConfigured(ctx, command.Name(), stays, action, id) }
		return nil
	}
}

// stored is storing for an action that needs the store only.
func (c *call) stored(
	act func(ctx context.Context, store *storage.Store, id string) error,
) func(*cobra.Command, []string) error {
	return c.storing(func(ctx context.Context, _ config.Config, store *storage.Store, id string) error {
		return act(ctx, store, id)
	})
}

// storing returns the RunE of a command that ends, and needs the configuration and the store.
func (c *call) storing(
	act func(ctx context.Context, cfg config.Config, store *storage.Store, id string) error,
) func(*cobra.Command, []string) error {
	return c.configured(ends, func(ctx context.Context, cfg config.Config, id string) error {
		store, err := service.OpenStore(ctx, cfg)
		if err != nil {
			return err
		}
		defer store.Close()
		return act(ctx, cfg, store, id)
	})
}

// acting calls do with the actions on the store and on Temporal.
func acting(ctx context.Context, cfg config.Config, store *storage.Store, do func(action.Actions) error) error {
	temporal, err := service.DialTemporal(ctx, cfg.Temporal)
	if err != nil {
		return err
	}
	defer temporal.Close()
	return do(action.Actions{Store: action.StoreOf(store), Runs: &runs.Client{Temporal: temporal}})
}

func (c *call) runConfigured(ctx context.Context, name string, stays bool, action serviceAction, id string) error {
	cfg, err := config.Load(c.environment)
	if err != nil {
		return configurationError(err)
	}
	flush, err := telemetry.Setup(ctx, telemetry.Options{Service: name, Stays: stays, Out: c.out, Level: cfg.Level})
	if err != nil {
		return err
	}
	defer flush()

	err = action(ctx, cfg, id)
	if stays && ctx.Err() != nil && errors.Is(err, context.Canceled) { // it was stopped while it waited
		return nil
	}
	return err
}

// configurationError says that err is about the settings.
func configurationError(err error) error { return fmt.Errorf("configuration:\n%w", err) }

// prepared runs the action of a command that ends and needs a part of the settings only, which load
// reads. Log lines go to notes, because out is for the command's own output.
func prepared[T any](
	ctx context.Context, c *call, name string,
	load func(environment []string) (T, error), action func(context.Context, T) error,
) error {
	settings, err := load(c.environment)
	if err != nil {
		return configurationError(err)
	}
	flush, err := telemetry.Setup(ctx, telemetry.Options{Service: name, Stays: ends, Out: c.notes})
	if err != nil {
		return err
	}
	defer flush()
	return action(ctx, settings)
}
