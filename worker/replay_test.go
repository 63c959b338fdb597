package worker

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/workflow"
)

// stored returns the histories that package workflows keeps, by name.
func stored(t *testing.T) map[string]*historypb.History {
	t.Helper()
	paths, err := filepath.Glob("../workflows/testdata/histories/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	all := map[string]*historypb.History{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		all[filepath.Base(path)], err = client.HistoryFromJSON(bytes.NewReader(text), client.HistoryJSONOptions{})
		require.NoError(t, err)
	}
	return all
}

// runOf returns the run of a history. One that was reset has another id than the one it began with.
func runOf(history *historypb.History) (run workflow.Execution) {
	for _, e := range history.Events {
		if reset := e.GetWorkflowTaskFailedEventAttributes().GetNewRunId(); reset != "" {
			run = workflow.Execution{ID: "replayed", RunID: reset}
		}
	}
	return run
}

func TestReplay_ReadsEveryFieldOfTheStoredHistories(t *testing.T) {
	t.Parallel()
	for name, history := range stored(t) {
		require.NoError(t, Replay(runOf(history), history), name)
	}
}

func TestReplay_FindsRenamedFieldsAndUnknownWorkflows(t *testing.T) {
	t.Parallel()
	all := stored(t)

	renamed := all["checkout_session_waiting.json"]
	input := renamed.Events[0].GetWorkflowExecutionStartedEventAttributes().Input.Payloads[0]
	input.Data = bytes.Replace(input.Data, []byte(`"id"`), []byte(`"session_id"`), 1)
	require.EqualError(t, Replay(workflow.Execution{}, renamed),
		`contract.CheckoutSessionInput cannot be read: json: unknown field "session_id"`)

	input.Data = bytes.Replace(input.Data, []byte(`"session_id"`), []byte(`"payment_id"`), 1)
	require.EqualError(t, Replay(workflow.Execution{}, renamed), `contract.CheckoutSessionInput has no field "id"`)

	answered := all["webhook_delivery_delivered.json"]
	changed := false
	for _, e := range answered.Events {
		for _, result := range e.GetMarkerRecordedEventAttributes().GetDetails()["result"].GetPayloads() {
			result.Data = bytes.Replace(result.Data, []byte(`"status"`), []byte(`"state"`), 1)
			changed = true
		}
	}
	require.True(t, changed)
	require.EqualError(t, Replay(workflow.Execution{}, answered),
		`contract.SendAttemptResult cannot be read: json: unknown field "state"`)

	gone := all["merchant_update.json"]
	gone.Events[0].GetWorkflowExecutionStartedEventAttributes().WorkflowType.Name = "Gone"
	require.EqualError(t, Replay(workflow.Execution{}, gone), "this version does not have the workflow")
}
