package e2e_test

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"

	"example.com/checkout/deploy/proof/e2e"
	"example.com/checkout/deploy/standin/devstack"
	"example.com/checkout/workflows/checkout"
)

// TestNamespace_OfAnotherName: Temporal's namespace is a setting, and on Temporal
// Cloud never "checkout". Whatever asks Temporal asks that one: what is terminated
// comes back, the dashboard links to it, and an operator sees what a build still runs.
func TestNamespace_OfAnotherName(t *testing.T) {
	t.Parallel()
	stack := e2e.Beside(t, devstack.Options{Namespace: "prod.a1b2c", Env: []string{
		"CHECKOUT_RECONCILE_INTERVAL=5s", "TEMPORAL_WORKER_BUILD_ID=one", "CHECKOUT_TEMPORAL_UI_URL=http://temporal.example",
	}})
	e2e.Release(t, stack, "one")
	m, c := e2e.NewMerchant(t, stack), e2e.TemporalClient(t, stack)
	id := m.Create(e2e.Terms)
	e2e.Await(t, "release --runs counts the open session", 60*time.Second, func() bool { // the index follows with a delay
		out, err := e2e.CheckoutCommand(t, stack, "release", "--runs")
		return err == nil && strings.Contains(out, "one\t1 open")
	})

	require.NoError(t, c.TerminateWorkflow(t.Context(), id, "", "a test"))
	e2e.Await(t, "the session has a run again", 60*time.Second, func() bool {
		return e2e.StatusOf(t, c, id) == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING
	})
	m.MustPay(id, e2e.CardSucceeds)
	m.AwaitStatus(id, checkout.StatusCompleted, 20*time.Second)

	demo := &e2e.Merchant{T: t, Stack: stack, Key: stack.Demo.APIKey}
	shown := demo.Create(e2e.Terms)
	require.Contains(t, dashboardPage(t, stack, "/m/"+stack.Demo.MerchantID+"/test/sessions/"+shown), `href="http://temporal.example/namespaces/prod.a1b2c/workflows/`+shown+`"`)
}

// dashboardPage is a page of the demo merchant as its owner sees it.
func dashboardPage(t *testing.T, stack *devstack.Stack, path string) string {
	t.Helper()
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	browser := &http.Client{Jar: jar, Timeout: 10 * time.Second}
	res, err := browser.PostForm(stack.DashboardURL()+"/signin", url.Values{
		"email": {devstack.DemoOwner}, "password": {stack.Demo.Password}, "next": {path},
	})
	require.NoError(t, err)
	defer func() { _ = res.Body.Close() }() // a test's answer
	require.Equal(t, http.StatusOK, res.StatusCode)
	require.Equal(t, path, res.Request.URL.Path, "where signing in has led")
	page, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return string(page)
}
