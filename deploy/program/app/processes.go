package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"example.com/checkout/deploy/program/config"
	"example.com/checkout/deploy/program/service"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/runs"
)

var apiCommand = command{
	use:   "api",
	short: "Serve the REST API, the hosted page and the dashboard",
	long: `Serves the REST API, the hosted page and the dashboard until it is stopped. It waits for PostgreSQL. It
starts without Temporal, and then answers what it can.`,
	args: words(),
	run: withConfig(stays, func(_ *call, ctx context.Context, cfg config.Config) (result, error) {
		return nil, service.API(ctx, cfg)
	}),
}

var workerCommand = command{
	use:   "worker",
	short: "Run the workflows and activities",
	long:  `Runs the workflows and activities until it is stopped. It waits for PostgreSQL and Temporal.`,
	args:  words(),
	run: withConfig(stays, func(_ *call, ctx context.Context, cfg config.Config) (result, error) {
		return nil, service.Worker(ctx, cfg)
	}),
}

var setupCommand = command{
	use:   "setup",
	short: "Create the schema, Temporal's namespace and its schedules",
	long: `Creates the database's schema, and in Temporal the namespace, its search attributes and the schedules. It
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
	args: words(),
	flags: func(f *pflag.FlagSet) {
		f.String("cell", "", "two of 0-9 and a-z without i, l, o and u; the first is 00")
		f.Bool("lean-visibility", false, "drop Temporal's unused indexes")
		f.Bool("restart-runs", false, "terminate open runs that do not fit this version")
	},
	run: withSettings(config.LoadSetup, (*call).setUp),
}

func (c *call) setUp(ctx context.Context, cfg config.Setup) error {
	cfg.Cell, cfg.LeanVisibility = checkout.Cell(c.text("cell")), c.isSet("lean-visibility")
	cfg.RestartRuns = c.isSet("restart-runs")
	if cfg.LeanVisibility && cfg.VisibilityURL == "" {
		return errors.New("CHECKOUT_TEMPORAL_VISIBILITY_URL is not set: --lean-visibility needs it")
	}
	err := service.Setup(ctx, cfg, c.printLine)
	if notAllowed, ok := errors.AsType[*runs.NotAllowedError](err); ok {
		return fmt.Errorf("%w\nOn Temporal Cloud, run this and then setup again:\n  %s", err, cloudCommand(notAllowed))
	}
	return err
}

// cloudCommand returns the command of Temporal Cloud's own tool that creates the missing parts.
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

var healthCommand = command{
	use:   "health {api | worker}",
	short: "Succeed if the process of this computer is ready",
	long: `Asks /readyz of the API or the worker, for the health check of a container, which has no other program. It asks
at CHECKOUT_API_ADDRESS or CHECKOUT_HEALTH_ADDRESS, and needs no other setting. It exits with status 1
when the process is not ready within 5 seconds.`,
	args:   cobra.MatchAll(words("api or worker"), cobra.OnlyValidArgs),
	values: map[string][]string{"": {"api", "worker"}},
	run:    (*call).health,
}

// health returns nil if the process of this computer is ready.
func (c *call) health(ctx context.Context) (result, error) {
	cfg, err := config.LoadReady(c.environment)
	if err != nil {
		return nil, configurationError(err)
	}
	address := cfg.APIAddress
	if c.args[0] == "worker" {
		address = cfg.HealthAddress
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithTimeout(ctx, 5*time.Second)
	defer stop()
	return nil, Answers(ctx, "http://"+net.JoinHostPort(cmp.Or(host, "127.0.0.1"), port)+"/readyz")
}

// Answers returns nil when url answers with 200.
func Answers(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	got, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer got.Body.Close()
	if got.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, got.Status)
	}
	return nil
}
