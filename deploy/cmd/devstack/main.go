// Command devstack runs the whole service on this computer: PostgreSQL, the real Temporal server with its UI, the API,
// the hosted page, a worker, a demo merchant and a sample receiver. Ctrl-C stops everything.
package main

import (
	"context"
	_ "embed" // for greeting.txt
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"text/template"
	"time"

	"example.com/checkout/deploy/program/config"
	"example.com/checkout/deploy/standin/devstack"
)

func main() {
	devstack.RunCommand()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := devstack.DieWithParent(ctx)
	defer cancel()
	if err := run(ctx, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "devstack:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	options, build, err := parse(args)
	if err != nil {
		return err
	}
	if build {
		_, err := devstack.TemporalProgram.Build(ctx, os.Stdout)
		return err
	}
	stack, err := devstack.Start(ctx, options)
	if errors.Is(err, context.Canceled) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() {
		fmt.Println("\nstopping; the data stays in", options.Dir)
		stack.Stop()
	}()
	if err := greet(stack, options.Dir); err != nil {
		return err
	}
	stack.Supervise(ctx)
	return nil
}

// parse reads the flags. Its errors say how to correct the call.
func parse(args []string) (o devstack.Options, build bool, err error) {
	flags := flag.NewFlagSet("devstack", flag.ContinueOnError)
	flags.StringVar(
		&o.Dir, "data", defaultDir(),
		"directory that keeps all data between starts; \"go run ./deploy/proof/chaos check -help\" says how to check what is in it",
	)
	flags.BoolVar(&o.Fresh, "fresh", false, "start empty: remove what an earlier start left in the data directory")
	flags.BoolVar(&o.LiveDouble, "live-double", false,
		"simulate live mode too: the card network, chains with funded treasuries, and prices")
	flags.BoolVar(&build, "build", false, "only build the Temporal server into the cache")
	flags.IntVar(&o.Ports.API, "api-port", 8080, "port of the REST API")
	flags.IntVar(&o.Ports.Page, "page-port", 8081, "port of the hosted checkout page")
	flags.IntVar(&o.Ports.Receiver, "receiver-port", 8082, "port of the sample receiver")
	flags.IntVar(&o.Ports.Dashboard, "dashboard-port", 8083, "port of the dashboard")
	flags.IntVar(&o.Ports.Health, "health-port", 8084, "port of the worker's health")
	flags.IntVar(&o.Ports.UI, "ui-port", 8233, "port of Temporal's UI")
	flags.IntVar(&o.Ports.Temporal, "temporal-port", 7233, "port of Temporal")
	flags.IntVar(&o.Ports.Postgres, "postgres-port", 0, "port of the private PostgreSQL; 0 is a free one")
	flags.StringVar(&o.SessionLifetime, "session-lifetime", "", "lifetime of test sessions, such as 2m; default 1h")
	flags.StringVar(&o.RetrySchedule, "retry-schedule", "",
		`retry delays of test deliveries, such as "5s,10s,15s,20s,30s"; default: those of live mode`)
	if parseErr := flags.Parse(args); parseErr != nil {
		return o, false, parseErr
	}

	if o.LiveDouble {
		o.Bitcoin = 10 * time.Second
	}
	o.Out, o.DatabaseURL = os.Stdout, os.Getenv("DATABASE_URL")
	faults := check(&o)
	if flags.NArg() > 0 {
		faults = append(faults, fmt.Errorf("unknown argument %q; -help lists the flags", flags.Arg(0)))
	}
	return o, build, errors.Join(faults...)
}

// check makes the directory absolute and returns what is wrong with the flags and the environment.
func check(o *devstack.Options) (faults []error) {
	var err error
	if o.Dir == "" {
		faults = append(faults, errors.New("-data needs a directory"))
	} else if o.Dir, err = filepath.Abs(o.Dir); err != nil {
		faults = append(faults, fmt.Errorf("-data: %w", err))
	}
	if o.SessionLifetime != "" {
		lifetime, err := time.ParseDuration(o.SessionLifetime)
		if err == nil {
			err = config.CheckSessionLifetime(lifetime)
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("-session-lifetime: %w", err))
		}
	}
	if _, err := config.ParseSchedule(o.RetrySchedule); err != nil {
		faults = append(faults, fmt.Errorf("-retry-schedule %w", err))
	}
	if err := config.CheckDatabaseURL(o.DatabaseURL); o.DatabaseURL != "" && err != nil {
		faults = append(faults, fmt.Errorf("DATABASE_URL %w", err))
	}
	if o.Fresh && o.DatabaseURL != "" {
		faults = append(faults, errors.New("-fresh cannot empty the database of DATABASE_URL: do that yourself"))
	}
	return faults
}

// defaultDir returns a directory for PostgreSQL's data. For root it is outside the home directory, which PostgreSQL's
// own user may not enter. It is "" for a user without a cache directory; that user must name a directory.
func defaultDir() string {
	if os.Geteuid() == 0 {
		return "/var/lib/checkout-devstack"
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(cache, "checkout-devstack", "data")
}

//go:embed greeting.txt
var greetingText string

var greeting = template.Must(template.New("greeting").Parse(greetingText))

func greet(s *devstack.Stack, dir string) error {
	return greeting.Execute(os.Stdout, map[string]any{
		"Stack": s, "Dir": dir, "Owner": devstack.DemoOwner, "Metrics": os.Getenv("OTEL_METRICS_EXPORTER") == "prometheus",
	})
}
