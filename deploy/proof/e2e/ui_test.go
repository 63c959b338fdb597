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
)

// TestUI_ShowsTheNamespaceAndActs reads and terminates a run in Temporal's UI, as an operator's browser does.
func TestUI_ShowsTheNamespaceAndActs(t *testing.T) {
	t.Parallel()
	m, c := e2e.NewMerchant(t, e2e.Shared), e2e.TemporalClient(t, e2e.Shared)
	id := m.Create(e2e.Terms)
	run, err := c.DescribeWorkflowExecution(t.Context(), id, "")
	require.NoError(t, err)

	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	browser := http.Client{Jar: jar}
	ask := func(method, path, token, body string) (int, string) {
		request, err := http.NewRequestWithContext(t.Context(), method, e2e.Shared.UIURL()+path, strings.NewReader(body))
		require.NoError(t, err)
		request.Header.Set("X-CSRF-Token", token)
		request.Header.Set("Content-Type", "application/json")
		answer, err := browser.Do(request)
		require.NoError(t, err)
		defer func() { _ = answer.Body.Close() }() // a test's answer
		content, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		return answer.StatusCode, string(content)
	}

	namespace := "/namespaces/" + e2e.Shared.Temporal.Namespace()
	status, page := ask("GET", namespace+"/workflows", "", "")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, page, "<html")
	status, settings := ask("GET", "/api/v1/settings", "", "")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, settings, `"DisableWriteActions":false`)
	status, described := ask("GET", "/api/v1"+namespace, "", "")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, described, `"name": "`+e2e.Shared.Temporal.Namespace()+`"`)
	e2e.Await(t, "the UI lists the run", 20*time.Second, func() bool { // the index of runs follows with a delay
		status, workflows := ask("GET", "/api/v1"+namespace+"/workflows?query="+url.QueryEscape(`MerchantId = "`+m.ID+`"`), "", "")
		require.Equal(t, http.StatusOK, status, workflows)
		return strings.Contains(workflows, id)
	})

	// An operator's click sends the cookie's token in a header.
	address, err := url.Parse(e2e.Shared.UIURL())
	require.NoError(t, err)
	var token string
	for _, cookie := range jar.Cookies(address) {
		if cookie.Name == "_csrf" {
			token = cookie.Value
		}
	}
	terminate := "/api/v1" + namespace + "/workflows/" + id + "/terminate"
	status, said := ask("POST", terminate, "", `{}`)
	require.GreaterOrEqual(t, status, 400, "refused without the token: %s", said)
	status, said = ask("POST", terminate, token, `{"reason":"test"}`)
	require.Equal(t, http.StatusOK, status, said)
	run, err = c.DescribeWorkflowExecution(t.Context(), id, run.WorkflowExecutionInfo.Execution.RunId)
	require.NoError(t, err)
	require.Equal(t, enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED, run.WorkflowExecutionInfo.Status)
	e2e.Await(t, "the session has a run again", 60*time.Second, func() bool {
		return e2e.StatusOf(t, c, id) == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING
	})
}
