// Command checkout is the service: the REST API with the hosted page and the dashboard, the worker,
// and the commands for operators and developers.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	// Root certificates for a computer that has none, such as a container from scratch. Where the system has
	// some, or SSL_CERT_FILE names some, these are not used.
	_ "golang.org/x/crypto/x509roots/fallback"

	"example.com/checkout/deploy/program/app"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := app.Main(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "checkout:", err)
		os.Exit(app.ExitStatus(err))
	}
}
