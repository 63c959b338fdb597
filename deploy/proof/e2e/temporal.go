package e2e

import (
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/encoding/protojson"

	"example.com/checkout/deploy/standin/devstack"
	"example.com/checkout/storage/storagetest/must"
)

// TemporalClient connects to the stack's Temporal.
func TemporalClient(t *testing.T, stack *devstack.Stack) client.Client {
	c := must.Get(stack.Temporal.Dial(t.Context()))(t)
	t.Cleanup(c.Close)
	return c
}

// Discard is a logger for clients of Temporal that drops every line.
var Discard = slog.New(slog.NewTextHandler(io.Discard, nil))

// StatusOf returns the status of the last run of a workflow.
func StatusOf(t *testing.T, c client.Client, id string) enumspb.WorkflowExecutionStatus {
	run := must.Get(c.DescribeWorkflowExecution(t.Context(), id, ""))(t)
	return run.WorkflowExecutionInfo.Status
}

// AwaitRun waits until the last run of a workflow has a status.
func AwaitRun(
	t *testing.T, c client.Client, id, what string, within time.Duration, want enumspb.WorkflowExecutionStatus,
) {
	Await(t, what, within, func() bool { return StatusOf(t, c, id) == want })
}

// Events returns the history of a run; "" for runID means the last run of the id. It is empty before the run begins.
func Events(t *testing.T, c client.Client, id, runID string) []*historypb.HistoryEvent {
	var all []*historypb.HistoryEvent
	for i := c.GetWorkflowHistory(t.Context(), id, runID, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); i.HasNext(); {
		e, err := i.Next()
		if notFound := (*serviceerror.NotFound)(nil); errors.As(err, &notFound) {
			return nil
		}
		require.NoError(t, err)
		all = append(all, e)
	}
	return all
}

// Record writes the history of one run to -record-histories; runID "" is the last run.
func Record(t *testing.T, c client.Client, name, id, runID string) {
	// A replay needs a workflow task that is completed.
	const least = 4 // events
	h := historypb.History{}
	Await(t, "the first workflow task of "+id+" is completed", 20*time.Second, func() bool {
		h.Events = Events(t, c, id, runID)
		return len(h.Events) >= least
	})
	if *RecordHistories == "" {
		return
	}
	text := must.Get(protojson.Marshal(&h))(t)
	require.NoError(t, os.WriteFile(filepath.Join(*RecordHistories, name+".json"), text, 0o600))
}
