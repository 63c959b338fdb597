package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"example.com/checkout/deploy/program/config"
	"example.com/checkout/deploy/program/service"
	"example.com/checkout/deploy/program/telemetry"
	"example.com/checkout/storage"
)

func (c *call) apiCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "api",
		Short: "Serve the REST API, the hosted page and the dashboard",
		Long: `Serves the REST API, the hosted page and the dashboard until it is stopped. It waits for PostgreSQL. It
starts without Temporal, and then answers what it can.`,
		Args: words(),
		RunE: c.configured(stays, func([]string) serviceAction { return service.API }),
	}
}

func (c *call) workerCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "worker",
		Short: "Run the workflows and activities",
		Long:  `Runs the workflows and activities until it is stopped. It waits for PostgreSQL and Temporal.`,
		Args:  words(),
		RunE:  c.configured(stays, func([]string) serviceAction { return service.Worker }),
	}
}

// serviceAction is the work of a command that needs the service's whole configuration.
type serviceAction func(ctx context.Context, cfg config.Config) error

// The values of Stays: a process runs until it is stopped, or until its work is done.
const (
	stays = true
	ends  = false
)

// configured returns the RunE of a command that runs action with the service's configuration.
func (c *call) configured(stays bool, action func(args []string) serviceAction) func(*cobra.Command, []string) error {
	return func(command *cobra.Command, args []string) error {
		c.work = func(ctx context.Context) error { return c.runConfigured(ctx, command.Name(), stays, action(args)) }
		return nil
	}
}

// withStore opens the store for an action that needs nothing else.
func (c *call) withStore(act func(context.Context, *storage.Store) error) serviceAction {
	return storing(func(ctx context.Context, _ config.Config, store *storage.Store) error { return act(ctx, store) })
}

// storing opens the store for an action.
func storing(act func(context.Context, config.Config, *storage.Store) error) serviceAction {
	return func(ctx context.Context, cfg config.Config) error {
		store, err := service.OpenStore(ctx, cfg)
		if err != nil {
			return err
		}
		defer store.Close()
		return act(ctx, cfg, store)
	}
}

func (c *call) runConfigured(ctx context.Context, name string, stays bool, action serviceAction) error {
	cfg, err := config.Load(c.environment)
	if err != nil {
		return configurationError(err)
	}
	flush, err := telemetry.Setup(ctx, telemetry.Options{Service: name, Stays: stays, Out: c.out, Level: cfg.Level})
	if err != nil {
		return err
	}
	defer flush()

	err = action(ctx, cfg)
	if ctx.Err() != nil && errors.Is(err, context.Canceled) { // the process was stopped while it waited
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
