package invariant

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/timestamppb"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/contract"
	"example.com/checkout/workflows/webhook"
)

// fakeTemporal answers the reader's requests. Its list is behind: it has only the ids in listed,
// until the reader asks for an id alone.
type fakeTemporal struct {
	client.Client
	listed    []string
	histories map[string][]*historypb.HistoryEvent // by id; a nil one has gone

	mu      sync.Mutex
	answers map[string][]*workflowservice.DescribeWorkflowExecutionResponse // by id; the last one stays
}

func (f *fakeTemporal) ListWorkflow(
	_ context.Context, r *workflowservice.ListWorkflowExecutionsRequest,
) (*workflowservice.ListWorkflowExecutionsResponse, error) {
	ids := f.listed
	if id, alone := strings.CutPrefix(r.Query, "WorkflowId = "); alone {
		ids = []string{strings.Trim(id, "'")}
	}
	var got workflowservice.ListWorkflowExecutionsResponse
	for _, id := range ids {
		got.Executions = append(got.Executions, described(id, completed).WorkflowExecutionInfo)
	}
	return &got, nil
}

func (f *fakeTemporal) DescribeWorkflowExecution(
	_ context.Context, id, _ string,
) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	answers := f.answers[id]
	if len(answers) == 0 {
		return nil, serviceerror.NewNotFound("no such workflow")
	}
	f.answers[id] = answers[min(1, len(answers)-1):]
	return answers[0], nil
}

func (f *fakeTemporal) GetWorkflowHistory(
	_ context.Context, id, _ string, _ bool, _ enumspb.HistoryEventFilterType,
) client.HistoryEventIterator {
	return &fakeEvents{f.histories[id]}
}

type fakeEvents struct{ left []*historypb.HistoryEvent }

func (f *fakeEvents) HasNext() bool { return len(f.left) > 0 }

func (f *fakeEvents) Next() (*historypb.HistoryEvent, error) {
	next := f.left[0]
	f.left = f.left[1:]
	if next == nil {
		return nil, serviceerror.NewNotFound("removed meanwhile")
	}
	return next, nil
}

func described(id string, status enumspb.WorkflowExecutionStatus) *workflowservice.DescribeWorkflowExecutionResponse {
	return &workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: &workflowpb.WorkflowExecutionInfo{
		Execution: &commonpb.WorkflowExecution{WorkflowId: id, RunId: "run of " + id}, Status: status, StartTime: timestamppb.New(noon),
		Type: &commonpb.WorkflowType{Name: contract.TypeCheckoutSession},
	}}
}

// event returns an event of a history as Temporal writes it in JSON: its type, its number, and its attributes.
func event(t *testing.T, typ string, id int64, attributes string) *historypb.HistoryEvent {
	e := &historypb.HistoryEvent{}
	text := fmt.Sprintf(`{"eventId": "%d", "eventType": "EVENT_TYPE_%s", "eventTime": %q, %s}`, id, typ, noon.Format(time.RFC3339), attributes)
	require.NoError(t, protojson.Unmarshal([]byte(text), e), text)
	return e
}

// payload returns a value as Temporal writes it in JSON.
func payload(t *testing.T, value any) string {
	encoded, err := converter.GetDefaultDataConverter().ToPayloads(value)
	require.NoError(t, err)
	text, err := protojson.Marshal(encoded)
	require.NoError(t, err)
	return string(text)
}

func completedWith(t *testing.T, result any) *historypb.HistoryEvent {
	return event(t, "WORKFLOW_EXECUTION_COMPLETED", 9, `"workflowExecutionCompletedEventAttributes": {"result": `+payload(t, result)+`}`)
}

func TestReadRuns_ListsWaitsAndReadsTheHistories(t *testing.T) {
	t.Parallel()
	ended := completedWith(t, contract.CheckoutSessionResult{Status: checkout.StatusCompleted})
	started := event(t, "WORKFLOW_EXECUTION_STARTED", 1,
		`"workflowExecutionStartedEventAttributes": {"input": `+payload(t, contract.CheckoutSessionInput{ExpiresAt: noon})+`}`)
	signal := event(t, "WORKFLOW_EXECUTION_SIGNALED", 6, `"workflowExecutionSignaledEventAttributes": {"signalName": "retry_now"}`)
	temporal := &fakeTemporal{
		listed: []string{"cs_listed", "cs_behind", "cs_orphan", "cs_gone", "gone"},
		answers: map[string][]*workflowservice.DescribeWorkflowExecutionResponse{
			"cs_listed":   {described("cs_listed", completed)},
			"cs_behind":   {described("cs_behind", running), described("cs_behind", completed)},
			"cs_unlisted": {described("cs_unlisted", completed)},
			"cs_pending":  {described("cs_pending", running)},
			"cs_orphan":   {described("cs_orphan", running)},
			"cs_gone":     {described("cs_gone", completed)},
		},
		histories: map[string][]*historypb.HistoryEvent{
			"cs_listed": {started, ended}, "cs_behind": {signal, ended}, "cs_unlisted": {localSend(t, sendActivity, attemptResult(webhook.DeliveryDelivered, "")), ended},
			"cs_orphan": {started}, "cs_gone": {ended, nil},
		},
	}
	f := &Facts{At: noon}
	for id, status := range map[string]checkout.Status{
		"cs_listed": checkout.StatusCompleted, "cs_behind": checkout.StatusCompleted, "cs_unlisted": checkout.StatusCompleted,
		"cs_pending": checkout.StatusPending, "cs_none": checkout.StatusExpired,
	} {
		f.Sessions = append(f.Sessions, &Session{ID: id, Status: status})
	}
	require.NoError(t, readRuns(t.Context(), Sources{Temporal: temporal, Progress: func(string) {}}, f))

	want := map[string]Run{
		"cs_listed":   {Status: completed, Result: "completed", ExpiresAt: noon, Unsent: true},
		"cs_behind":   {Status: completed, Result: "completed", RetryNow: []time.Time{noon}, Unsent: true},
		"cs_unlisted": {Status: completed, Result: "completed"},
		"cs_pending":  {Status: running, Unsent: true},
		"cs_orphan":   {Status: running, ExpiresAt: noon, Unsent: true},
		"cs_gone":     {Status: completed}, // it is said nothing about what it sent
	}
	for id, r := range want {
		r.Type, r.WorkflowID, r.RunID, r.StartedAt, r.Last = contract.TypeCheckoutSession, id, "run of "+id, noon, true
		want[id] = r
	}
	require.Equal(t, want, by(f.Runs, func(r Run) string { return r.WorkflowID }))
}

func scheduledSend(t *testing.T) *historypb.HistoryEvent {
	return event(t, "ACTIVITY_TASK_SCHEDULED", 5, `"activityTaskScheduledEventAttributes": {"activityType": {"name": "SendAttempt"}}`)
}

func startedSend(t *testing.T) *historypb.HistoryEvent {
	return event(t, "ACTIVITY_TASK_STARTED", 6, `"activityTaskStartedEventAttributes": {"scheduledEventId": "5"}`)
}

func completedSend(t *testing.T, result contract.SendAttemptResult) *historypb.HistoryEvent {
	return event(t, "ACTIVITY_TASK_COMPLETED", 7,
		`"activityTaskCompletedEventAttributes": {"scheduledEventId": "5", "result": `+payload(t, result)+`}`)
}

func localSend(t *testing.T, name string, result contract.SendAttemptResult) *historypb.HistoryEvent {
	return event(t, "MARKER_RECORDED", 5, fmt.Sprintf(`"markerRecordedEventAttributes": {"markerName": "LocalActivity", "details": {"data": %s, "result": %s}}`,
		payload(t, map[string]string{"ActivityType": name}), payload(t, result)))
}

func taskFailed(t *testing.T, cause string) *historypb.HistoryEvent {
	return event(t, "WORKFLOW_TASK_FAILED", 8,
		`"workflowTaskFailedEventAttributes": {"cause": "WORKFLOW_TASK_FAILED_CAUSE_`+cause+`", "failure": {"message": "why"}}`)
}

func attemptResult(status webhook.DeliveryStatus, reason contract.Reason) contract.SendAttemptResult {
	return contract.SendAttemptResult{
		DeliveryState: contract.DeliveryState{Status: status}, Reason: reason,
	}
}

// TestApply_KnowsWhatBeganAnAttempt checks that a run counts if an attempt began in it.
func TestApply_KnowsWhatBeganAnAttempt(t *testing.T) {
	t.Parallel()
	busy := attemptResult(webhook.DeliveryPending, "")
	parked := attemptResult(webhook.DeliveryPending, contract.ReasonHeld)
	delivered := attemptResult(webhook.DeliveryDelivered, "")
	pending := &workflowpb.PendingActivityInfo{ActivityType: &commonpb.ActivityType{Name: sendActivity}, Attempt: 2}
	for _, c := range []struct {
		name    string
		history []*historypb.HistoryEvent
		pending []*workflowpb.PendingActivityInfo
		want    bool
	}{
		{"nothing", nil, nil, false},
		{"scheduled and not started", []*historypb.HistoryEvent{scheduledSend(t)}, nil, false},
		{"its second attempt is pending", []*historypb.HistoryEvent{scheduledSend(t)}, []*workflowpb.PendingActivityInfo{pending}, true},
		{"started", []*historypb.HistoryEvent{scheduledSend(t), startedSend(t)}, nil, true},
		{"the endpoint was busy", []*historypb.HistoryEvent{scheduledSend(t), startedSend(t), completedSend(t, busy)}, nil, false},
		{"put on hold", []*historypb.HistoryEvent{scheduledSend(t), startedSend(t), completedSend(t, parked)}, nil, true},
		{"delivered", []*historypb.HistoryEvent{scheduledSend(t), startedSend(t), completedSend(t, delivered)}, nil, true},
		{"delivered by a local activity", []*historypb.HistoryEvent{localSend(t, sendActivity, delivered)}, nil, true},
		{"another local activity", []*historypb.HistoryEvent{localSend(t, "RecordAttempt", delivered)}, nil, false},
		{"before a reset", []*historypb.HistoryEvent{localSend(t, sendActivity, delivered), taskFailed(t, "RESET_WORKFLOW")}, nil, false},
	} {
		r := Run{pending: c.pending}
		r.apply(c.history)
		require.Equal(t, c.want, !r.Unsent, c.name)
	}
}

func TestBehind_OfADelivery(t *testing.T) {
	t.Parallel()
	pending := func(state enumspb.PendingActivityState, failure *failurepb.Failure) []*workflowpb.PendingActivityInfo {
		return []*workflowpb.PendingActivityInfo{{
			ActivityType: &commonpb.ActivityType{Name: sendActivity}, State: state, LastFailure: failure,
		}}
	}
	timedOut := &failurepb.Failure{FailureInfo: &failurepb.Failure_TimeoutFailureInfo{TimeoutFailureInfo: &failurepb.TimeoutFailureInfo{}}}
	localLost := &failurepb.Failure{Message: contract.AttemptLost}
	for _, c := range []struct {
		name         string
		id           string
		pending      []*workflowpb.PendingActivityInfo
		behind, lost bool
	}{
		{"an attempt is under way", "whd_ok", pending(enumspb.PENDING_ACTIVITY_STATE_STARTED, nil), true, false},
		{"its report never came", "whd_ok", pending(enumspb.PENDING_ACTIVITY_STATE_SCHEDULED, timedOut), false, true},
		{"that of a local attempt never came", "whd_ok", pending(enumspb.PENDING_ACTIVITY_STATE_SCHEDULED, localLost), false, true},
		{"and another attempt followed", "whd_ok", pending(enumspb.PENDING_ACTIVITY_STATE_STARTED, localLost), true, false},
		{"nothing is known", "whd_ok", nil, true, false},
		{"the row is pending", "whd_pending", nil, false, false},
		{"there is no row", "whd_x", nil, false, false},
	} {
		f := newFacts()
		f.delivery("whd_pending", "evt_ok", webhook.DeliveryPending)
		run := Run{WorkflowID: c.id, Status: running, ReportLost: slices.ContainsFunc(c.pending, reportLost)}
		require.Equal(t, c.behind, newWorld(f).behind(run), c.name)
		require.Equal(t, c.lost, run.ReportLost, c.name)
	}
}

func TestReplay_SaysWhatFailedAndWhetherItReplays(t *testing.T) {
	t.Parallel()
	decided := event(t, "WORKFLOW_TASK_COMPLETED", 4, `"workflowTaskCompletedEventAttributes": {}`)
	require.Empty(t, replay(Run{}, []*historypb.HistoryEvent{taskFailed(t, "NON_DETERMINISTIC_ERROR")}), "its code never ran")
	for cause, want := range map[string][]string{
		"UNHANDLED_COMMAND": nil, "RESET_WORKFLOW": nil, "NON_DETERMINISTIC_ERROR": {"NonDeterministicError: why"},
	} {
		got := replay(Run{}, []*historypb.HistoryEvent{decided, taskFailed(t, cause)})
		require.Len(t, got, 1)
		require.Equal(t, want, got[0].TaskFailures)
		require.NotEmpty(t, got[0].ReplayError, "no workflow has such a history")
	}
}
