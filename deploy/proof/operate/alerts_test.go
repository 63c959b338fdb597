package operate_test

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/standin/need"
)

const (
	alertsFile = "../../release/chart/files/alerts.yaml"
	guide      = "../../release/alerts.md"
)

// healthy is an hour and more of a service that has no fault: promtool's notation of values, by series.
var healthy = map[string]string{
	`target_info{service_name="checkout-api",job="api"}`:                                             "1x90",
	`target_info{service_name="checkout-worker",job="worker"}`:                                       "1x90",
	posts("count", `http_response_status_code="201"`):                                                "0+600x90",
	posts("bucket", `http_response_status_code="201",le="0.1"`):                                      "0+600x90",
	posts("bucket", `http_response_status_code="201",le="+Inf"`):                                     "0+600x90",
	`checkout_temporal_available{service_name="checkout-api"}`:                                       "1x90",
	`checkout_schema_version{job="worker"}`:                                                          "22x90",
	`checkout_session_overdue{checkout_mode="live"}`:                                                 "0x90",
	`webhook_delivery_backlog{checkout_mode="live",webhook_delivery_state="overdue"}`:                "0x90",
	`webhook_delivery_backlog{checkout_mode="live",webhook_delivery_state="scheduled"}`:              "40x90",
	`webhook_endpoint_behind_seconds{webhook_endpoint_kind="registration"}`:                          "2x90",
	`webhook_attempt_duration_seconds_count{checkout_mode="live"}`:                                   "0+60x90",
	`webhook_attempt_duration_seconds_count{checkout_mode="live",error_type="http"}`:                 "0+6x90",
	`temporal_workflow_completed_total{workflow_type="Reconcile"}`:                                   "0+1x90",
	`checkout_reconcile_runs_total{checkout_reconcile_outcome="restarted"}`:                          "0+1x90",
	`checkout_build_without_worker{job="worker"}`:                                                    "0x90",
	`checkout_worker_unreleased{job="worker"}`:                                                       "0x90",
	`checkout_temporal_certificate_remaining_days{job="worker"}`:                                     "30x90",
	`checkout_rate_available{checkout_mode="live",checkout_rate_from="EUR",checkout_rate_to="USDC"}`: "1x90",
	`checkout_payout_pending{checkout_mode="live",checkout_payout_hold=""}`:                          "3x90",
	`checkout_payout_pending{checkout_mode="live",checkout_payout_hold="delay"}`:                     "3x90",
	`checkout_payout_oldest_seconds{checkout_mode="live"}`:                                           "20x90",
	`checkout_treasury_followed_seconds{checkout_mode="live"}`:                                       "0+60x90",
	`checkout_acquirer_reports_total{checkout_acquirer_report_outcome="taken"}`:                      "0+1x90",
	`checkout_acquirer_reports_total{checkout_acquirer_report_outcome="refused"}`:                    "0+1x90",
	`checkout_event_feed_held_seconds{job="worker"}`:                                                 "0x90",
	`checkout_treasury_float_remaining_days{checkout_mode="live",checkout_payout_currency="USDC"}`:   "5x90",
	`checkout_treasury_float_least_days{checkout_mode="live"}`:                                       "2x90",
}

// gone takes a series away.
const gone = ""

// faults holds for each alert the series in which its fault differs from healthy.
var faults = map[string]map[string]string{
	"CheckoutNoAPI":        {`target_info{service_name="checkout-api",job="api"}`: "1x30"},
	"CheckoutNoWorker":     {`target_info{service_name="checkout-worker",job="worker"}`: "1x30"},
	"CheckoutServerErrors": {posts("count", `http_response_status_code="503"`): "0+20x90"},
	"CheckoutSlow": {
		posts("bucket", `http_response_status_code="201",le="0.1"`): "0x90",
		posts("bucket", `http_response_status_code="201",le="5"`):   "0+600x90",
	},
	"CheckoutTemporalAway":       {`checkout_temporal_available{service_name="checkout-api"}`: "0x90"},
	"CheckoutDatabaseAway":       {`checkout_schema_version{job="worker"}`: gone},
	"CheckoutPoolExhausted":      {`pgxpool_canceled_acquires_total{job="api"}`: "0+60x90"},
	"CheckoutSessionsOverdue":    {`checkout_session_overdue{checkout_mode="live"}`: "2x90"},
	"CheckoutDeliveriesOverdue":  {`webhook_delivery_backlog{checkout_mode="live",webhook_delivery_state="overdue"}`: "5x90"},
	"CheckoutEndpointBehind":     {`webhook_endpoint_behind_seconds{webhook_endpoint_kind="registration"}`: "120x90"},
	"CheckoutDeliveriesFail":     {`webhook_attempt_duration_seconds_count{checkout_mode="live",error_type="http"}`: "0+90x90"},
	"CheckoutReconcileStopped":   {`temporal_workflow_completed_total{workflow_type="Reconcile"}`: "5x90"},
	"CheckoutReconcileFails":     {`checkout_reconcile_runs_total{checkout_reconcile_outcome="failed"}`: "0+1x90"},
	"CheckoutWorkflowStuck":      {`temporal_workflow_task_execution_failed_total{workflow_type="CheckoutSession"}`: "0+2x90"},
	"CheckoutPaymentsUnknown":    {`checkout_payment_unknown_total{job="api"}`: "0x50 1x40"},
	"CheckoutBuildNotReleased":   {`checkout_worker_unreleased{job="worker"}`: "1x90"},
	"CheckoutBuildWithoutWorker": {`checkout_build_without_worker{job="worker"}`: "1x90"},
	"CheckoutProxyNotTrusted":    {`checkout_proxy_untrusted_total{job="api"}`: "0+1x90"},
	"CheckoutTemporalCertificateExpires": {
		`checkout_temporal_certificate_remaining_days{job="worker"}`: "6x90",
	},
	"CheckoutEventFeedHeld": {`checkout_event_feed_held_seconds{job="worker"}`: "0+60x90"},
	"CheckoutNoRate": {
		`checkout_rate_available{checkout_mode="live",checkout_rate_from="EUR",checkout_rate_to="USDC"}`: "0x90",
	},
	"CheckoutMoneyAlarm":     {`checkout_alarm_raised_seconds{checkout_mode="live",checkout_alarm="signer"}`: "3000x90"},
	"CheckoutTreasuryBlind":  {`checkout_treasury_followed_seconds{checkout_mode="live"}`: "600x90"},
	"CheckoutReportsRefused": {`checkout_acquirer_reports_total{checkout_acquirer_report_outcome="taken"}`: "5x90"},
	"CheckoutPayoutsFrozen":  {`checkout_payout_pending{checkout_mode="live",checkout_payout_hold="frozen"}`: "1x90"},
	"CheckoutPayoutsHeld":    {`checkout_payout_pending{checkout_mode="live",checkout_payout_hold="float"}`: "1x90"},
	"CheckoutFloatLow": {
		`checkout_treasury_float_remaining_days{checkout_mode="live",checkout_payout_currency="USDC"}`: "1.5x90",
	},
	"CheckoutFindingOpen": {`checkout_finding_open{checkout_mode="live",checkout_finding_kind="cost_differs"}`: "1x90"},
	"CheckoutPayoutsLate": {`checkout_payout_oldest_seconds{checkout_mode="live"}`: "1000x90"},
}

func posts(kind, labels string) string {
	return `http_server_request_duration_seconds_` + kind + `{server_address="checkout-api",http_request_method="POST",` + labels + `}`
}

// TestAlerts_EachFaultRaisesItsOwnAndNoOther asks Prometheus's own test tool.
func TestAlerts_EachFaultRaisesItsOwnAndNoOther(t *testing.T) {
	t.Parallel()
	tool := need.Program(t, "apt-get install prometheus", "promtool")
	rules, err := filepath.Abs(alertsFile)
	require.NoError(t, err)
	tests := []any{alertTest("a healthy service", nil, "")}
	for alert, fault := range faults {
		tests = append(tests, alertTest(alert, fault, alert))
	}
	// promtool reads YAML, and JSON is YAML.
	content, err := json.Marshal(map[string]any{"rule_files": []string{rules}, "evaluation_interval": "1m", "tests": tests})
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "alerts_test.yaml")
	require.NoError(t, os.WriteFile(file, content, 0o600))
	out, err := exec.CommandContext(t.Context(), tool, "test", "rules", file).CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// alertTest is a test of promtool: after an hour alert fires and no other; "" means none. The same Prometheus has
// another installation, which is healthy.
func alertTest(name string, fault map[string]string, alert string) map[string]any {
	all := maps.Clone(healthy)
	maps.Copy(all, fault)
	for name, values := range healthy {
		all[strings.Replace(name, "{", `{namespace="staging",`, 1)] = values
	}
	var series []any
	for name, values := range all {
		if values != gone {
			series = append(series, map[string]string{"series": name, "values": values})
		}
	}
	fires := []any{}
	if alert != "" {
		fires = append(fires, map[string]any{"labels": `{alertname="` + alert + `"}`, "value": 1})
	}
	return map[string]any{
		"name": name, "interval": "1m", "input_series": series,
		"promql_expr_test": []any{map[string]any{
			"expr": `count by (alertname) (ALERTS{alertstate="firing"})`, "eval_time": "1h", "exp_samples": fires,
		}},
	}
}

// TestAlerts_HaveATestAndASection: who gets an alert finds what to do.
func TestAlerts_HaveATestAndASection(t *testing.T) {
	t.Parallel()
	rules, err := os.ReadFile(alertsFile)
	require.NoError(t, err)
	var names []string
	for _, match := range regexp.MustCompile(`alert: (\w+)`).FindAllStringSubmatch(string(rules), -1) {
		names = append(names, match[1])
	}
	require.ElementsMatch(t, slices.Collect(maps.Keys(faults)), names)
	text, err := os.ReadFile(guide)
	require.NoError(t, err)
	for _, name := range names {
		require.Contains(t, strings.ToLower(string(text)), "\n## "+strings.ToLower(name)+"\n", "say in alerts.md what to do")
	}
}
