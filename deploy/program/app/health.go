package app

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"example.com/checkout/deploy/program/config"
)

func (c *call) healthCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "health {api | worker}",
		Short: "Succeed if the process of this computer is ready",
		Long: `Asks /readyz of the API or the worker, for the health check of a container, which has no other program. It asks
at CHECKOUT_API_ADDRESS or CHECKOUT_HEALTH_ADDRESS, and needs no other setting. It exits with status 1
when the process is not ready within 5 seconds.`,
		Args:      cobra.MatchAll(words("api or worker"), cobra.OnlyValidArgs),
		ValidArgs: []string{"api", "worker"},
		RunE: func(_ *cobra.Command, args []string) error {
			c.work = func(ctx context.Context) error {
				cfg, err := config.LoadReady(c.environment)
				if err != nil {
					return configurationError(err)
				}
				address := cfg.APIAddress
				if args[0] == "worker" {
					address = cfg.HealthAddress
				}
				return ready(ctx, address)
			}
			return nil
		},
	}
}

// ready asks the process that listens at address.
func ready(ctx context.Context, address string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(ctx, 5*time.Second)
	defer stop()
	return Answers(ctx, "http://"+net.JoinHostPort(cmp.Or(host, "127.0.0.1"), port)+"/readyz")
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
