package devstack

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"example.com/checkout/deploy/program/app"
)

// commandVariable names an environment variable. If it is set, a program that calls RunCommand runs
// a command of the production binary instead of its own work. So a stack needs no second build.
const commandVariable = "CHECKOUT_DEVSTACK_COMMAND"

// RunCommand must be the first call of a program that starts a Stack. If a stack started this
// process as its API or worker, RunCommand runs that command and ends the process. Otherwise it
// returns at once.
func RunCommand() {
	name := os.Getenv(commandVariable)
	if name == "" {
		return
	}
	_ = os.Unsetenv(commandVariable) // not a setting of the command; it fails only for a malformed name
	_ = os.Unsetenv(PostgresRepository)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := app.Main(ctx, []string{name}, os.Environ(), os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}
