package devstack

import (
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
)

// OperatorsEnvironment is Environment with the settings of simulated live mode, if there is one.
func (s *Stack) OperatorsEnvironment() []string {
	return append(s.Environment(), s.Live.environment("worker")...)
}

// EnvironmentFile returns the path of a file with the settings, one a line. It is for commands of the
// production binary in another shell.
func (s *Stack) EnvironmentFile() string { return filepath.Join(s.options.Dir, "environment") }

// Environment returns the configuration of every command of the production binary in this stack. It holds secrets.
func (s *Stack) Environment() []string {
	environment := slices.Concat(s.Temporal.environment(), s.poolerEnvironment(), []string{
		"CHECKOUT_MASTER_KEYS=" + s.Demo.MasterKeys,
		"CHECKOUT_API_ADDRESS=" + loopback(s.options.Ports.API),
		"CHECKOUT_API_URL=" + s.APIURL(),
		"CHECKOUT_PAGE_ADDRESS=" + loopback(s.options.Ports.Page),
		"CHECKOUT_PAGE_URL=" + s.PageURL(),
		"CHECKOUT_DASHBOARD_ADDRESS=" + loopback(s.options.Ports.Dashboard),
		"CHECKOUT_DASHBOARD_URL=" + s.DashboardURL(),
		"CHECKOUT_HEALTH_ADDRESS=" + loopback(0), // any port: only the stack's own worker has a known one
		"CHECKOUT_TEST_ALLOW_LOOPBACK_WEBHOOKS=true",
		"CHECKOUT_REQUIRE_SECOND_FACTOR=false", // a look at live mode's pages needs no phone
		"CHECKOUT_SMTP_URL=smtp://" + loopback(s.mailPort),
		"CHECKOUT_MAIL_FROM=checkout@devstack.example",
	})
	if !s.options.NoUI {
		environment = append(environment, "CHECKOUT_TEMPORAL_UI_URL="+s.UIURL())
	}
	if s.options.SessionLifetime != "" {
		environment = append(environment, "CHECKOUT_TEST_SESSION_LIFETIME="+s.options.SessionLifetime)
	}
	if s.options.RetrySchedule != "" {
		environment = append(environment, "CHECKOUT_TEST_RETRY_SCHEDULE="+s.options.RetrySchedule)
	}
	return environment
}

// through returns the settings that make a command's processes use proxies.
func (s *Stack) through(command string) []string {
	var env []string
	if port := s.options.Through[command].Temporal; port != 0 {
		env = append(env, "TEMPORAL_ADDRESS="+loopback(port))
	}
	if u, err := url.Parse(s.DatabaseURL()); err == nil && s.options.Through[command].Postgres != 0 {
		u.Host = loopback(s.options.Through[command].Postgres)
		env = append(env, "DATABASE_URL="+u.String())
	}
	if s.Live == nil {
		return env
	}
	user := ""
	if s.Live.Bitcoin != nil {
		user = s.Live.Bitcoin.User + "@"
	}
	for _, proxy := range []struct {
		setting string
		port    int
	}{
		{"CHECKOUT_STRIPE_API_URL=http://", s.options.Through[command].Acquirer},
		{"CHECKOUT_ETHEREUM_RPC_URLS=http://", s.options.Through[command].Ethereum},
		{"CHECKOUT_ETHEREUM_SIGNER_URL=http://", s.options.Through[command].Signer},
		{"CHECKOUT_BITCOIN_RPC_URL=http://" + user, s.options.Through[command].Bitcoin},
	} {
		if proxy.port != 0 {
			env = append(env, proxy.setting+loopback(proxy.port))
		}
	}
	return env
}

// APIURL returns the address of the REST API.
func (s *Stack) APIURL() string { return "http://" + loopback(s.options.Ports.API) }

// PageURL returns the address of the hosted page.
func (s *Stack) PageURL() string { return "http://" + loopback(s.options.Ports.Page) }

// DashboardURL returns the address of the dashboard. It is a name: browsers offer no passkeys for an IP address.
func (s *Stack) DashboardURL() string {
	return fmt.Sprintf("http://localhost:%d", s.options.Ports.Dashboard)
}

// ReceiverURL returns the address of the sample receiver.
func (s *Stack) ReceiverURL() string { return "http://" + loopback(s.options.Ports.Receiver) }

// UIURL returns the address of Temporal's UI.
func (s *Stack) UIURL() string { return "http://" + loopback(s.options.Ports.UI) }

// DatabaseURL returns the URL of the service's own database. It holds a password.
func (s *Stack) DatabaseURL() string { return s.url(database) }

// url returns the URL of a database of the private PostgreSQL. With an existing PostgreSQL, it is Options.DatabaseURL.
func (s *Stack) url(name string) string {
	if s.Postgres == nil {
		return s.options.DatabaseURL
	}
	return s.Postgres.URL(name)
}

// MetricsAddress returns the address where Prometheus finds the metrics of api or worker when
// OTEL_METRICS_EXPORTER is "prometheus".
func (s *Stack) MetricsAddress(name string) string { return loopback(s.metrics[name]) }

// Curl returns a command line that creates a test session.
func (s *Stack) Curl() string { return s.curl(s.Demo.APIKey) }

// LiveCurl returns a command line that creates a session of the simulated live mode.
func (s *Stack) LiveCurl() string { return s.curl(s.Demo.LiveKey) }

func (s *Stack) curl(key string) string {
	return strings.Join([]string{
		"curl -s " + s.APIURL() + "/v1/checkout",
		"-H 'Authorization: Bearer " + key + "'",
		"-H 'Content-Type: application/json'",
		// The shell makes another order each time: one order has one session.
		`-d '{"amount": 10.50, "currency": "EUR", "payout_currency": "USDC", "metadata": {"order_id": "order-'$(date +%s)'"}}'`,
	}, " \\\n  ")
}
