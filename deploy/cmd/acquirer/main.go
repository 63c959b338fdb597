// Command acquirer runs the double of Stripe as a process of its own, for a local stack and for
// tests that kill it. It listens on loopback only. Its state is in PostgreSQL.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"example.com/checkout/deploy/standin/acquirer"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := acquirer.Main(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "acquirer:", err)
		os.Exit(1)
	}
}
