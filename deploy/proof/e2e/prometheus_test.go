package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/proof/e2e"
	"example.com/checkout/deploy/standin/devstack"
	"example.com/checkout/deploy/standin/need"
	"example.com/checkout/storage/pgtemp"
	"example.com/checkout/storage/storagetest/must"
)

// metricLabels are all labels that the series may have. A new one multiplies the
// series by the number of its values: those must be few and of our own making.
var metricLabels = []string{
	"__name__", "instance", "job", "le", "service_name", "service_version", "otel_scope_name", "otel_scope_version",
	"telemetry_sdk_language", "telemetry_sdk_name", "telemetry_sdk_version",
	"checkout_mode", "checkout_session_status", "error_type", "webhook_endpoint_kind", "webhook_attempt_state",
	"http_request_method", "http_response_status_code", "http_route", "network_protocol_name", "network_protocol_version", "server_address", "url_scheme",
	"db_response_status_code", "db_system_name", "pgx_operation_type",
	"activity_type", "client_name", "namespace", "operation", "poller_type", "status_code", "task_queue", "worker_type", "workflow_type", "failure_reason",
	"go_memory_type", "cause",
	"webhook_delivery_state", "checkout_payout_hold", "checkout_finding_kind", "checkout_reconcile_outcome", "db_client_connection_pool_name",
}

// TestMetrics_ArriveInPrometheus: a real Prometheus scrapes API and worker and answers what an operator asks.
func TestMetrics_ArriveInPrometheus(t *testing.T) {
	t.Parallel()
	m := e2e.NewMerchant(t, e2e.Shared)
	session := m.Sell(e2e.CardSucceeds)
	m.Arrivals(2, 10*time.Second)
	m.RefusedDelivery()
	m.Must(http.StatusOK, http.MethodPost, "/v1/test/checkout/"+m.Create(e2e.Terms)+"/advance", "")
	page := e2e.Shared.PageURL() + "/" + session
	request := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, page, http.NoBody))(t)
	request.Host = "made-up.example:4711"
	require.NoError(t, must.Get(http.DefaultClient.Do(request))(t).Body.Close())

	p := startPrometheus(t, e2e.Shared)
	for _, process := range []string{"api", "worker"} {
		p.await(`up{job="`+process+`"}`, 1)
		p.await(`target_info{job="`+process+`", service_name="checkout-`+process+`", service_version!=""}`, 1)
		p.await(`pgxpool_acquires_total{job="`+process+`", db_client_connection_pool_name="checkout"}`, 1)
		p.await(`pgxpool_empty_acquire_wait_time_nanoseconds_total{job="`+process+`"}`, 0)
		p.await(`go_goroutine_count{job="`+process+`"}`, 1)
		p.await(`sum(db_client_operation_duration_seconds_count{job="`+process+`"})`, 1)
	}
	for _, query := range []string{
		`http_server_request_duration_seconds_count{http_route="/v1/checkout", http_request_method="POST", http_response_status_code="201", server_address="checkout-api"}`,
		`http_server_request_duration_seconds_count{http_route="/{id}", http_request_method="GET", http_response_status_code="200", server_address="checkout-page"}`,
		`checkout_session_ended_total{checkout_session_status="completed", checkout_mode="test"}`,
		`checkout_session_ended_total{checkout_session_status="expired", checkout_mode="test"}`,
		`webhook_attempt_duration_seconds_count{error_type="", checkout_mode="test"}`,
		`webhook_attempt_duration_seconds_count{error_type="http", checkout_mode="test"}`,
		`temporal_workflow_completed_total{workflow_type="CheckoutSession"}`,
		`temporal_activity_execution_latency_seconds_bucket{activity_type="ChargeCard", le="0.5"}`, // seconds, and buckets that fit
	} {
		p.await("sum("+query+")", 1)
	}
	for _, query := range []string{
		`checkout_session_overdue{checkout_mode="live"}`,
		`webhook_delivery_backlog{checkout_mode="test", webhook_delivery_state="scheduled"}`,
		`webhook_delivery_backlog{checkout_mode="test", webhook_delivery_state="overdue"}`,
		`webhook_delivery_backlog{checkout_mode="test", webhook_delivery_state="parked"}`,
		`checkout_payout_pending{checkout_mode="live", checkout_payout_hold=""}`,
		`checkout_payout_oldest_seconds{checkout_mode="live"}`,
		`checkout_event_feed_held_seconds`,
		`webhook_endpoint_attempts{webhook_endpoint_kind="registration", webhook_attempt_state="waiting"}`,
		`webhook_endpoint_attempts{webhook_endpoint_kind="session", webhook_attempt_state="in_flight"}`,
		`webhook_endpoint_limit{webhook_endpoint_kind="session"}`,
		`webhook_endpoint_behind_seconds{webhook_endpoint_kind="registration"}`,
	} {
		p.await(query, 0)
	}
	p.await(`checkout_schema_version`, 17)
	p.hasFewSeries()
	p.fillsDashboard()
}

// fillsDashboard requires that each panel of the dashboard for Grafana says what it shows, and in which unit, and that
// Prometheus has data for it. The panels of exchange rates and of the treasury need live mode.
func (p *prometheus) fillsDashboard() {
	content := must.Get(os.ReadFile(e2e.Path("deploy", "release", "chart", "files", "dashboard.json")))(p.t)
	var dashboard struct {
		Panels []struct {
			Type, Title, Description string
			Datasource               struct{ UID string }
			FieldConfig              struct{ Defaults struct{ Unit string } }
			Targets                  []struct{ Expr string }
		}
	}
	require.NoError(p.t, json.Unmarshal(content, &dashboard))
	require.NotEmpty(p.t, dashboard.Panels)
	for _, panel := range dashboard.Panels {
		if panel.Type == "row" {
			continue
		}
		require.NotEmpty(p.t, panel.Description, panel.Title)
		require.NotEmpty(p.t, panel.FieldConfig.Defaults.Unit, panel.Title)
		require.Equal(p.t, "${datasource}", panel.Datasource.UID, panel.Title)
		require.NotEmpty(p.t, panel.Targets, panel.Title)
		for _, target := range panel.Targets {
			if !regexp.MustCompile("checkout_(rate|treasury)_").MatchString(target.Expr) {
				p.awaitData(panel.Title, strings.ReplaceAll(target.Expr, "$__rate_interval", "1m"))
			}
		}
	}
}

func (p *prometheus) awaitData(title, query string) {
	e2e.Await(p.t, title+": "+query, 20*time.Second, func() bool { return len(p.values(query)) > 0 })
}

func (p *prometheus) values(query string) (all []string) {
	var data struct {
		Result []struct{ Value [2]any }
	}
	p.get("/api/v1/query", url.Values{"query": {query}}, &data)
	for _, one := range data.Result {
		all = append(all, fmt.Sprint(one.Value[1]))
	}
	return all
}

// ofMerchants matches what tells a merchant, a customer or one resource from
// another: ids, keys, e-mail addresses, UUIDs.
var ofMerchants = regexp.MustCompile(`[a-z]+_[0-9a-z]{26}|sk_(test|live)_|whsec_|@|[0-9a-f]{8}-[0-9a-f]{4}-`)

// hasFewSeries requires of the series of API and worker that there are few, and
// that their labels say nothing of anybody.
func (p *prometheus) hasFewSeries() {
	var all []map[string]string
	p.get("/api/v1/series", url.Values{"match[]": {`{job=~"api|worker"}`}}, &all)
	count := map[string]int{}
	for _, series := range all {
		name := series["job"] + " " + series["__name__"]
		if series["le"] == "" {
			count[name]++
		}
		for label, value := range series {
			require.Contains(p.t, metricLabels, label, name)
			require.NotRegexp(p.t, ofMerchants, value, "%s of %s", label, name)
			require.NotContains(p.t, value, "made-up", "%s of %s", label, name)
			require.NotRegexp(p.t, `\b4711\b`, value, "%s of %s", label, name) // a port may contain it
		}
	}
	require.NotEmpty(p.t, count)
	for name, n := range count { // 1,000 at the very most: routes by methods and status codes
		require.LessOrEqual(p.t, n, 1000, name)
	}
}

// prometheus is a running Prometheus.
type prometheus struct {
	t   *testing.T
	url string
}

// startPrometheus lets one scrape API and worker of a stack, as jobs of their
// names, every second, and evaluate the rules of files.
func startPrometheus(t *testing.T, stack *devstack.Stack, rules ...string) *prometheus {
	path := need.Program(t, "apt-get install --no-install-recommends prometheus", "prometheus")
	dir := t.TempDir()
	var config strings.Builder
	files := must.Get(json.Marshal(rules))(t)
	fmt.Fprintf(&config, "global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: %s\nscrape_configs:\n", files)
	for _, name := range []string{"api", "worker"} {
		fmt.Fprintf(&config, "- {job_name: %s, static_configs: [{targets: [%q]}]}\n", name, stack.MetricsAddress(name))
	}
	file := filepath.Join(dir, "prometheus.yml")
	require.NoError(t, os.WriteFile(file, []byte(config.String()), 0o600))
	ports := must.Get(pgtemp.FreePorts(1))(t)
	address := fmt.Sprintf("127.0.0.1:%d", ports[0])
	process := must.Get(devstack.Program{
		Name: "prometheus", Path: path, Dir: dir, Log: filepath.Join(dir, "log"),
		Args: []string{"--config.file=" + file, "--storage.tsdb.path=" + filepath.Join(dir, "data"), "--web.listen-address=" + address},
	}.Start())(t)
	t.Cleanup(func() { _ = process.Stop(10 * time.Second) }) // one that does not stop is killed
	p := &prometheus{t: t, url: "http://" + address}
	e2e.Await(t, "Prometheus is ready", 20*time.Second, func() bool {
		require.NoError(t, process.Err())
		got, err := e2e.Try(http.MethodGet, p.url+"/-/ready", "")
		return err == nil && got.Status == http.StatusOK
	})
	return p
}

func (p *prometheus) get(path string, query url.Values, data any) {
	answer := e2e.Ask(p.t, http.MethodGet, p.url+path+"?"+query.Encode(), "")
	whole := struct {
		Status, Error string
		Data          any
	}{Data: data}
	require.NoError(p.t, json.Unmarshal(answer.Body, &whole))
	require.Equal(p.t, "success", whole.Status, whole.Error)
}

// await waits until a query's only value is at least so much.
func (p *prometheus) await(query string, least float64) {
	e2e.Await(p.t, query, 20*time.Second, func() bool {
		all := p.values(query)
		if len(all) != 1 {
			return false
		}
		got, err := strconv.ParseFloat(all[0], 64)
		return err == nil && got >= least
	})
}

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
	m.Sell(e2e.CardSucceeds)
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
	rules := must.Get(os.ReadFile(e2e.Path("deploy", "release", "chart", "files", "alerts.yaml")))(t)
	file := filepath.Join(t.TempDir(), "alerts.yaml")
	require.NoError(t, os.WriteFile(file, regexp.MustCompile(`for: \d+m`).ReplaceAll(rules, []byte("for: 0s")), 0o600))
	return file
}

func (p *prometheus) alerts() (names []string) {
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
	e2e.Await(p.t, name+" fires", time.Minute, func() bool { return slices.Contains(p.alerts(), name) })
}

func (p *prometheus) awaitNoAlert(name string) {
	e2e.Await(p.t, name+" is over", 2*time.Minute, func() bool { return !slices.Contains(p.alerts(), name) })
}
