// Command checkout is the service: the REST API with the hosted page and the dashboard, the worker,
// and the commands for operators and developers.
package main

import (
	"os"

	// Root certificates for a computer that has none, such as a container from scratch. Where the system has
	// some, or SSL_CERT_FILE names some, these are not used.
	_ "golang.org/x/crypto/x509roots/fallback"

	"example.com/checkout/deploy/program/app"
)

func main() { os.Exit(app.Run(os.Args[1:])) }
