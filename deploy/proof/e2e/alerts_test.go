package e2e_test

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/proof/e2e"
	"example.com/checkout/deploy/standin/devstack"
)

// TestAlerts_FireUnderTheirFault breaks a stack and asks a real Prometheus. The rules are those that
// operators get, but for their waits. deploy/proof/operate has a test of every rule with made-up series.
func TestAlerts_FireUnderTheirFault(t *testing.T) {
	t.Parallel()
	e2e.OnlyLong(t)
	stack := e2e.OwnStack(t, devstack.Options{Env: []string{
		"TEMPORAL_WORKER_BUILD_ID=one", "OTEL_METRICS_EXPORTER=prometheus", "CHECKOUT_RECONCILE_INTERVAL=2s",
	}})
	p := startPrometheus(t, stack, impatientRules(t))
	p.awaitAlert("CheckoutBuildNotReleased")
	e2e.Release(t, stack, "one")
	m := e2e.NewMerchant(t, stack)
	m.MustPay(m.Create(e2e.Terms), e2e.CardSucceeds)
	m.Arrivals(2, 20*time.Second)
	e2e.Await(t, "the healthy service has no alert", 2*time.Minute, func() bool { return len(p.alerts()) == 0 })
	for range 10 {
		require.Empty(t, p.alerts())
		time.Sleep(time.Second)
	}

	stack.Temporal.Kill()
	p.awaitAlert("CheckoutTemporalAway")
	require.NoError(t, stack.Temporal.Start(t.Context()))
	stack.Worker.Kill()
	p.awaitAlert("CheckoutNoWorker")
	require.NoError(t, stack.StartWorker(t.Context()))
	p.awaitNoAlert("CheckoutNoWorker")
	p.awaitNoAlert("CheckoutTemporalAway")
	e2e.Await(t, "a proxy that nobody trusts is seen", 20*time.Second, func() bool {
		e2e.Ask(t, http.MethodGet, stack.PageURL()+"/", "", "X-Forwarded-For", "192.0.2.1")
		return slices.Contains(p.alerts(), "CheckoutProxyNotTrusted")
	})
	stack.Postgres.Kill()
	p.awaitAlert("CheckoutDatabaseAway")
	e2e.Await(t, "answers of 5xx are seen", time.Minute, func() bool {
		_, _ = m.Call(http.MethodPost, "/v1/checkout", e2e.Terms) // its error is what the alert is about
		return slices.Contains(p.alerts(), "CheckoutServerErrors")
	})
}

// impatientRules returns a file with the operators' rules, which fire at once.
func impatientRules(t *testing.T) string {
	t.Helper()
	rules, err := os.ReadFile(e2e.Path("deploy", "release", "chart", "files", "alerts.yaml"))
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "alerts.yaml")
	require.NoError(t, os.WriteFile(file, regexp.MustCompile(`for: \d+m`).ReplaceAll(rules, []byte("for: 0s")), 0o600))
	return file
}

// alerts returns the names of the alerts that fire.
func (p *prometheus) alerts() (names []string) {
	p.t.Helper()
	var data struct {
		Alerts []struct {
			Labels map[string]string
			State  string
		}
	}
	p.get("/api/v1/alerts", nil, &data)
	for _, alert := range data.Alerts {
		if alert.State == "firing" {
			names = append(names, alert.Labels["alertname"])
		}
	}
	return names
}

func (p *prometheus) awaitAlert(name string) {
	p.t.Helper()
	e2e.Await(p.t, name+" fires", time.Minute, func() bool { return slices.Contains(p.alerts(), name) })
}

func (p *prometheus) awaitNoAlert(name string) {
	p.t.Helper()
	e2e.Await(p.t, name+" is over", 2*time.Minute, func() bool { return !slices.Contains(p.alerts(), name) })
}
