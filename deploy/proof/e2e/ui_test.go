package e2e_test

import (
	"net/http"
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

	cookie, token := "", ""
	ask := func(method, path, body string) (int, string) {
		got := e2e.Ask(t, method, e2e.Shared.UIURL()+path, body, "Cookie", cookie, "X-CSRF-Token", token, "Content-Type", "application/json")
		for _, set := range (&http.Response{Header: got.Header}).Cookies() {
			if set.Name == "_csrf" {
				cookie = set.Name + "=" + set.Value
			}
		}
		return got.Status, string(got.Body)
	}
	namespace := "/namespaces/" + e2e.Shared.Temporal.Namespace()
	for path, want := range map[string]string{
		namespace + "/workflows": "<html", "/api/v1/settings": `"DisableWriteActions":false`,
		"/api/v1" + namespace: `"name": "` + e2e.Shared.Temporal.Namespace() + `"`,
	} {
		status, content := ask("GET", path, "")
		require.Equal(t, http.StatusOK, status, path)
		require.Contains(t, content, want)
	}
	e2e.Await(t, "the UI lists the run", 20*time.Second, func() bool { // the index of runs follows with a delay
		_, workflows := ask("GET", "/api/v1"+namespace+"/workflows?query="+url.QueryEscape(`MerchantId = "`+m.ID+`"`), "")
		return strings.Contains(workflows, id)
	})

	// An operator's click sends the cookie's token in a header.
	terminate := "/api/v1" + namespace + "/workflows/" + id + "/terminate"
	status, said := ask("POST", terminate, `{}`)
	require.GreaterOrEqual(t, status, 400, "refused without the token: %s", said)
	token = strings.TrimPrefix(cookie, "_csrf=")
	status, said = ask("POST", terminate, `{"reason":"test"}`)
	require.Equal(t, http.StatusOK, status, said)
	run, err = c.DescribeWorkflowExecution(t.Context(), id, run.WorkflowExecutionInfo.Execution.RunId)
	require.NoError(t, err)
	require.Equal(t, enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED, run.WorkflowExecutionInfo.Status)
	e2e.AwaitRun(t, c, id, "the session has a run again", 60*time.Second, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING)
}
