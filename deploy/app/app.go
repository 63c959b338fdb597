// Package app puts the service together: the commands of the production binary.
package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"

	"example.com/checkout/deploy/config"
	"example.com/checkout/deploy/telemetry"
	"example.com/checkout/storage"
)

// Usage explains the commands.
const Usage = `usage: checkout COMMAND

  api              serve the REST API, the hosted page and the dashboard
  worker           run the workflows and activities
  migrate          bring the database's schema up to date
  release BUILD    let new runs begin with the workers of that build (CHECKOUT_BUILD_ID); -runs shows what older ones still run
  replay whd_…     start a delivery again: a new run of the same workflow id
  merchant         create, list and show merchants; merchant -h
  key              create, list and revoke merchants' API keys; key -h
  delivery         list the deliveries that are permanently failed now; delivery -h
  listen           forward a merchant's test-mode events to a local server; listen -h

Settings come from the environment; deploy/README.md, "Configuration", lists them.
`

// errUsage: the words of the call are wrong.
var errUsage = errors.New("unknown command")

// command is one of the binary's commands.
type command func(ctx context.Context, cfg config.Config, args []string) error

// Main runs the command that args name until ctx ends or it is done. Log lines
// go to out; where a script takes what a command prints, the words around it go
// to notes. It returns an error that names what is wrong.
func Main(ctx context.Context, args, environment []string, out, notes io.Writer) error {
	commands := map[string]command{"api": API, "worker": Worker, "migrate": migrate, "release": release, "replay": replay}
	if len(args) == 1 && slices.Contains([]string{"help", "-h", "-help", "--help"}, args[0]) {
		_, err := io.WriteString(out, Usage)
		return err
	}
	if len(args) > 0 {
		switch args[0] {
		case "listen":
			return runListen(ctx, args[1:], environment, out)
		case "merchant":
			return runAccounts(ctx, merchantCommands, args[1:], environment, out, notes)
		case "key":
			return runAccounts(ctx, keyCommands, args[1:], environment, out, notes)
		case "delivery":
			return runAccounts(ctx, deliveryCommands, args[1:], environment, out, notes)
		}
	}
	if len(args) == 0 || commands[args[0]] == nil {
		return fmt.Errorf("%w\n\n%s", errUsage, Usage)
	}
	if len(args) > 1 && args[0] != "replay" && args[0] != "release" {
		return fmt.Errorf("checkout %s takes no arguments", args[0])
	}
	cfg, err := config.Load(environment)
	if err != nil {
		return fmt.Errorf("configuration:\n%w", err)
	}
	stays := args[0] == "api" || args[0] == "worker"
	flush, err := telemetry.Setup(ctx, telemetry.Options{Service: args[0], Stays: stays, Out: out, Level: cfg.Level})
	if err != nil {
		return err
	}
	defer flush()
	err = commands[args[0]](ctx, cfg, args[1:])
	if ctx.Err() != nil && errors.Is(err, context.Canceled) { // told to stop while it waited
		return nil
	}
	return err
}

func migrate(ctx context.Context, cfg config.Config, _ []string) error {
	return storage.Migrate(ctx, cfg.DatabaseURL)
}

// openStore opens PostgreSQL, waiting until it is there. A wrong master key
// ends the process: it would sign wrongly.
func openStore(ctx context.Context, cfg config.Config) (*storage.Store, error) {
	var store *storage.Store
	err := wait(ctx, "PostgreSQL", func() (err error) {
		store, err = storage.Open(ctx, storage.Options{URL: cfg.DatabaseURL, Keys: cfg.Keys, MaxConns: cfg.DatabaseMaxConns})
		return err
	}, func(err error) bool { return storage.Unavailable(err) && !storage.Misconfigured(err) })
	if errors.Is(err, storage.ErrWrongMasterKey) {
		err = fmt.Errorf("CHECKOUT_MASTER_KEYS has not the key that sealed what is in the database: %w", err)
	}
	return store, err
}

// temporalOptions carry telemetry and the log into Temporal's client.
func temporalOptions(cfg config.Config) (client.Options, error) {
	options := client.Options{
		HostPort: cfg.TemporalAddress, Namespace: cfg.TemporalNamespace, Logger: log.NewStructuredLogger(slog.Default()),
		// Temporal is near, and what it is told is small: gzip would cost more than it saves.
		ConnectionOptions: client.ConnectionOptions{GrpcCompression: &client.GrpcCompressionNone{}},
	}
	return options, telemetry.Temporal(&options)
}

const waitInterval = time.Second

// wait repeats try until it succeeds, ctx ends or the error is not passing.
func wait(ctx context.Context, what string, try func() error, passing func(error) bool) error {
	for {
		err := try()
		if err == nil || !passing(err) {
			return err
		}
		slog.WarnContext(ctx, "waiting for "+what, "error", err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(waitInterval):
		}
	}
}
