package e2e_test

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"testing"

	"example.com/checkout/deploy/program/app"
	"example.com/checkout/deploy/proof/e2e"
)

// commandVariable makes this test program run a command of the production binary, so that a test can kill it.
const commandVariable = "E2E_TEST_COMMAND"

func TestMain(m *testing.M) {
	if args := os.Getenv(commandVariable); args != "" {
		os.Exit(runCommand(strings.Fields(args)))
	}
	e2e.Main(m)
}

func runCommand(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err := app.Main(ctx, args, os.Environ(), os.Stdout, os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "checkout:", err)
	}
	return app.ExitStatus(err)
}
