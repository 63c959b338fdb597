package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"example.com/checkout/deploy/config"
	"example.com/checkout/deploy/service"
	"example.com/checkout/deploy/telemetry"
	"example.com/checkout/storage"
)

func (c *call) apiCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "api",
		Short: "Serve the REST API, the hosted page and the dashboard",
		Long: `Serves the REST API, the hosted page and the dashboard until it is told to stop. It waits for
PostgreSQL. It starts without Temporal, and then answers what it can.`,
		Args: words(),
		RunE: c.configured(stays, func([]string) serviceAction { return service.API }),
	}
}

func (c *call) workerCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "worker",
		Short: "Run the workflows and activities",
		Long: `Runs the workflows and activities until it is told to stop. It waits for PostgreSQL and Temporal,
and sets up Temporal's schedules.`,
		Args: words(),
		RunE: c.configured(stays, func([]string) serviceAction { return service.Worker }),
	}
}

func (c *call) migrateCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "migrate",
		Short: "Bring the database's schema up to date",
		Long: `Brings the database's schema up to date and ends. Migrations only add: processes of the release
before go on working. Run it before the processes of a new release start.`,
		Args: words(),
		RunE: c.configured(ends, func([]string) serviceAction {
			return func(ctx context.Context, cfg config.Config) error { return storage.Migrate(ctx, cfg.DatabaseURL) }
		}),
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

func (c *call) runConfigured(ctx context.Context, name string, stays bool, action serviceAction) error {
	cfg, err := config.Load(c.environment)
	if err != nil {
		return fmt.Errorf("configuration:\n%w", err)
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
