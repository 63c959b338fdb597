package app

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"example.com/checkout/deploy/program/config"
	"example.com/checkout/deploy/program/service"
	"example.com/checkout/workflows/runs"
)

func (c *call) setupCommand() *cobra.Command {
	var flags config.Setup
	command := &cobra.Command{
		Use:   "setup",
		Short: "Create the schema, Temporal's namespace and its schedules",
		Long: `Creates the database's schema, and in Temporal the namespace, its search attributes and the schedules. It
is idempotent. Run it before the processes of a new release start. Migrations are backward compatible:
processes of the previous release keep working.

It needs DATABASE_URL and the settings of Temporal, and no master key. If a hosted Temporal does not let
it create the namespace or the attributes, it prints the commands that do.

It refuses to continue if open runs do not fit this version, and prints the steps to take. --restart-runs
terminates them: stop the workers of the former version before.

Several installations that share the merchants need a cell each: two characters in every id and key, by
which a proxy routes requests. Give --cell before the first merchant; it cannot change later.

Temporal's visibility table on PostgreSQL has 74 indexes, and each start and end of a run writes to all
of them. This service and searches in Temporal's UI need 14. --lean-visibility drops the others in the
database at CHECKOUT_TEMPORAL_VISIBILITY_URL, and prints the statements that recreate them. An upgrade of
Temporal may create new ones: run it again then.`,
		Args: words(),
		RunE: func(*cobra.Command, []string) error {
			c.work = func(ctx context.Context) error { return c.setUp(ctx, flags) }
			return nil
		},
	}
	command.Flags().StringVar((*string)(&flags.Cell), "cell", "",
		"two of 0-9 and a-z without i, l, o and u; the first is 00")
	command.Flags().BoolVar(&flags.LeanVisibility, "lean-visibility", false, "drop Temporal's unused indexes")
	command.Flags().BoolVar(&flags.RestartRuns, "restart-runs", false, "terminate open runs that do not fit this version")
	return command
}

func (c *call) setUp(ctx context.Context, flags config.Setup) error {
	err := prepared(ctx, c, "setup", config.LoadSetup, func(ctx context.Context, cfg config.Setup) error {
		cfg.Cell, cfg.LeanVisibility, cfg.RestartRuns = flags.Cell, flags.LeanVisibility, flags.RestartRuns
		if cfg.LeanVisibility && cfg.VisibilityURL == "" {
			return errors.New("CHECKOUT_TEMPORAL_VISIBILITY_URL is not set: --lean-visibility needs it")
		}
		return service.Setup(ctx, cfg, func(done string) { fmt.Fprintln(c.out, done) })
	})
	if notAllowed, ok := errors.AsType[*runs.NotAllowedError](err); ok {
		return fmt.Errorf("%w\nOn Temporal Cloud, run this and then setup again:\n  %s", err, cloudCommand(notAllowed))
	}
	return err
}

// cloudCommand returns the command of Temporal Cloud's own tool that makes what is missing.
// Source: docs.temporal.io/cloud/tcld/namespace.
func cloudCommand(missing *runs.NotAllowedError) string {
	days := fmt.Sprintf("--retention-days %d", runs.MinRetention/(24*time.Hour))
	switch {
	case missing.Create:
		return strings.Join([]string{"tcld namespace create --namespace", missing.Namespace, days,
			"--region REGION --ca-certificate-file FILE"}, " ")
	case missing.Retention:
		return strings.Join([]string{"tcld namespace retention set --namespace", missing.Namespace, days}, " ")
	}
	command := "tcld namespace search-attributes add --namespace " + missing.Namespace
	for _, name := range missing.Attributes {
		command += fmt.Sprintf(" --search-attribute %q", name+"=Keyword")
	}
	return command
}
