package invariant

import (
	"context"
	"errors"
	"fmt"
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
	listed    map[string]bool
	answers   map[string][]*workflowservice.DescribeWorkflowExecutionResponse // by id; the last one stays
	histories map[string][]*historypb.HistoryEvent                            // by id

	mu sync.Mutex
}

func (f *fakeTemporal) ListWorkflow(
	_ context.Context, r *workflowservice.ListWorkflowExecutionsRequest,
) (*workflowservice.ListWorkflowExecutionsResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var got workflowservice.ListWorkflowExecutionsResponse
	all := strings.HasPrefix(r.Query, "WorkflowType")
	for id, answers := range f.answers {
		if all && f.listed[id] || r.Query == "WorkflowId = '"+id+"'" {
			got.Executions = append(got.Executions, answers[0].WorkflowExecutionInfo)
		}
	}
	if all && f.listed["gone"] {
		got.Executions = append(got.Executions, described("gone", completed).WorkflowExecutionInfo)
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
	if len(answers) > 1 {
		f.answers[id] = answers[1:]
	}
	return answers[0], nil
}

func (f *fakeTemporal) GetWorkflowHistory(
	_ context.Context, id, _ string, _ bool, filter enumspb.HistoryEventFilterType,
) client.HistoryEventIterator {
	f.mu.Lock()
	defer f.mu.Unlock()
	events := f.histories[id]
	if filter == enumspb.HISTORY_EVENT_FILTER_TYPE_CLOSE_EVENT && len(events) > 1 {
		events = events[len(events)-1:]
	}
	return &fakeEvents{events}
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

func payloads(t *testing.T, value any) *commonpb.Payloads {
	t.Helper()
	encoded, err := converter.GetDefaultDataConverter().ToPayloads(value)
	require.NoError(t, err)
	return encoded
}

// event returns an event of a history as Temporal writes it in JSON: its type, its number, and its attributes.
func event(t *testing.T, typ string, id int64, attributes string) *historypb.HistoryEvent {
	t.Helper()
	e := &historypb.HistoryEvent{}
	text := fmt.Sprintf(`{"eventId": "%d", "eventType": "EVENT_TYPE_%s", "eventTime": %q, %s}`, id, typ, noon.Format(time.RFC3339), attributes)
	require.NoError(t, protojson.Unmarshal([]byte(text), e), text)
	return e
}

// payload returns a value as Temporal writes it in JSON.
func payload(t *testing.T, value any) string {
	t.Helper()
	text, err := protojson.Marshal(payloads(t, value))
	require.NoError(t, err)
	return string(text)
}

func completedWith(t *testing.T, result any) *historypb.HistoryEvent {
	t.Helper()
	return event(t, "WORKFLOW_EXECUTION_COMPLETED", 9, `"workflowExecutionCompletedEventAttributes": {"result": `+payload(t, result)+`}`)
}

func TestReadRuns_ListsWaitsAndReadsTheEnd(t *testing.T) {
	t.Parallel()
	ended := completedWith(t, contract.CheckoutSessionResult{Status: checkout.StatusCompleted})
	started := event(t, "WORKFLOW_EXECUTION_STARTED", 1,
		`"workflowExecutionStartedEventAttributes": {"input": `+payload(t, contract.CheckoutSessionInput{ExpiresAt: noon})+`}`)
	temporal := &fakeTemporal{
		listed: map[string]bool{"cs_listed": true, "cs_behind": true, "cs_orphan": true, "gone": true},
		answers: map[string][]*workflowservice.DescribeWorkflowExecutionResponse{
			"cs_listed":   {described("cs_listed", completed)},
			"cs_behind":   {described("cs_behind", running), described("cs_behind", completed)},
			"cs_unlisted": {described("cs_unlisted", completed)},
			"cs_pending":  {described("cs_pending", running)},
			"cs_orphan":   {described("cs_orphan", running)},
		},
		histories: map[string][]*historypb.HistoryEvent{
			"cs_listed": {started, ended}, "cs_behind": {ended}, "cs_unlisted": {ended}, "cs_orphan": {started, nil},
		},
	}
	f := &Facts{At: noon}
	for id, status := range map[string]checkout.Status{
		"cs_listed": checkout.StatusCompleted, "cs_behind": checkout.StatusCompleted, "cs_unlisted": checkout.StatusCompleted,
		"cs_pending": checkout.StatusPending, "cs_none": checkout.StatusExpired,
	} {
		f.Sessions = append(f.Sessions, Session{ID: id, Status: status})
	}
	sources := Sources{Temporal: temporal, Progress: func(string) {}}
	require.NoError(t, readRuns(t.Context(), sources, f))

	base := Run{Type: contract.TypeCheckoutSession, StartedAt: noon, Last: true}
	want := map[string]Run{}
	for _, id := range []string{"cs_listed", "cs_behind", "cs_unlisted"} {
		r := base
		r.Status, r.Result = completed, "completed"
		want[id] = r
	}
	pending, orphan := base, base
	pending.Status, orphan.Status, orphan.ExpiresAt = running, running, noon
	want["cs_pending"], want["cs_orphan"] = pending, orphan
	got := map[string]Run{}
	for _, r := range f.Runs {
		require.Equal(t, "run of "+r.WorkflowID, r.RunID)
		id := r.WorkflowID
		r.WorkflowID, r.RunID = "", ""
		got[id] = r
	}
	require.Equal(t, want, got)
}

func scheduledSend(t *testing.T) *historypb.HistoryEvent {
	t.Helper()
	return event(t, "ACTIVITY_TASK_SCHEDULED", 5, `"activityTaskScheduledEventAttributes": {"activityType": {"name": "SendAttempt"}}`)
}

func startedSend(t *testing.T) *historypb.HistoryEvent {
	t.Helper()
	return event(t, "ACTIVITY_TASK_STARTED", 6, `"activityTaskStartedEventAttributes": {"scheduledEventId": "5"}`)
}

func completedSend(t *testing.T, result contract.SendAttemptResult) *historypb.HistoryEvent {
	t.Helper()
	return event(t, "ACTIVITY_TASK_COMPLETED", 7,
		`"activityTaskCompletedEventAttributes": {"scheduledEventId": "5", "result": `+payload(t, result)+`}`)
}

func localSend(t *testing.T, name string, result contract.SendAttemptResult) *historypb.HistoryEvent {
	t.Helper()
	return event(t, "MARKER_RECORDED", 5, fmt.Sprintf(`"markerRecordedEventAttributes": {"markerName": "LocalActivity", "details": {"data": %s, "result": %s}}`,
		payload(t, map[string]string{"ActivityType": name}), payload(t, result)))
}

func taskFailed(t *testing.T, cause string) *historypb.HistoryEvent {
	t.Helper()
	return event(t, "WORKFLOW_TASK_FAILED", 8,
		`"workflowTaskFailedEventAttributes": {"cause": "WORKFLOW_TASK_FAILED_CAUSE_`+cause+`", "failure": {"message": "why"}}`)
}

func attemptResult(status webhook.DeliveryStatus, reason contract.Reason) contract.SendAttemptResult {
	return contract.SendAttemptResult{
		DeliveryState: contract.DeliveryState{Status: status}, Reason: reason,
	}
}

// TestSends_KnowsWhatBeganAnAttempt checks that a run counts if an attempt began in it.
func TestSends_KnowsWhatBeganAnAttempt(t *testing.T) {
	t.Parallel()
	busy := attemptResult(webhook.DeliveryPending, "")
	parked := attemptResult(webhook.DeliveryPending, contract.ReasonHeld)
	delivered := attemptResult(webhook.DeliveryDelivered, "")
	for _, c := range []struct {
		name   string
		events []*historypb.HistoryEvent
		want   bool
	}{
		{"nothing", nil, false},
		{"scheduled and not started", []*historypb.HistoryEvent{scheduledSend(t)}, false},
		{"started", []*historypb.HistoryEvent{scheduledSend(t), startedSend(t)}, true},
		{"the endpoint was busy", []*historypb.HistoryEvent{scheduledSend(t), startedSend(t), completedSend(t, busy)}, false},
		{"put on hold", []*historypb.HistoryEvent{scheduledSend(t), startedSend(t), completedSend(t, parked)}, true},
		{"delivered", []*historypb.HistoryEvent{scheduledSend(t), startedSend(t), completedSend(t, delivered)}, true},
		{"delivered by a local activity", []*historypb.HistoryEvent{localSend(t, sendActivity, delivered)}, true},
		{"another local activity", []*historypb.HistoryEvent{localSend(t, "RecordAttempt", delivered)}, false},
		{"before a reset", []*historypb.HistoryEvent{
			localSend(t, sendActivity, delivered), taskFailed(t, "RESET_WORKFLOW"),
		}, false},
	} {
		s := sends{scheduled: map[int64]bool{}, begun: map[int64]bool{}}
		for _, e := range c.events {
			s.apply(e)
		}
		require.Equal(t, c.want, s.any(), c.name)
	}
}

func TestReadMore_ReadsHistoriesOnlyWhenOdd(t *testing.T) {
	t.Parallel()
	delivered := attemptResult(webhook.DeliveryDelivered, "")
	signal := event(t, "WORKFLOW_EXECUTION_SIGNALED", 6, `"workflowExecutionSignaledEventAttributes": {"signalName": "retry_now"}`)
	temporal := &fakeTemporal{
		answers: map[string][]*workflowservice.DescribeWorkflowExecutionResponse{"whd_ok": {described("whd_ok", running)}},
		histories: map[string][]*historypb.HistoryEvent{
			"whd_ok": {localSend(t, sendActivity, delivered), signal, completedWith(t, contract.WebhookDeliveryResult{Status: webhook.DeliveryDelivered})},
		},
	}
	f := newFacts()
	reader := &runReader{Sources: Sources{Temporal: temporal}, rows: newWorld(f)}
	runs := []Run{{WorkflowID: "whd_ok", Status: completed}}
	require.NoError(t, reader.readMore(t.Context(), "whd_ok", runs))
	require.False(t, runs[0].History, "one run with attempts on the schedule")
	require.NoError(t, reader.readMore(t.Context(), "whd_unknown", runs))
	require.False(t, runs[0].History, "no row")

	f.of("whd_ok").Run = 2
	require.NoError(t, reader.readMore(t.Context(), "whd_ok", runs))
	require.True(t, runs[0].History && runs[0].Sent, "the row counts another run")
	require.Equal(t, "delivered", runs[0].Result)
	require.Len(t, runs[0].RetryNow, 1)

	temporal.histories["whd_ok"] = []*historypb.HistoryEvent{nil}
	runs = []Run{{WorkflowID: "whd_ok", Status: completed}}
	require.NoError(t, reader.readMore(t.Context(), "whd_ok", runs))
	require.False(t, runs[0].History, "it is gone")
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
		run := Run{WorkflowID: c.id, Status: running}
		require.Equal(t, c.behind, newWorld(f).behind(&run, c.pending), c.name)
		require.Equal(t, c.lost, run.ReportLost, c.name)
	}
}

func TestTaskFailure_SaysOnlyWhatIsTheServices(t *testing.T) {
	t.Parallel()
	for cause, want := range map[string]string{
		"UNHANDLED_COMMAND": "", "RESET_WORKFLOW": "", "NON_DETERMINISTIC_ERROR": "NonDeterministicError: why",
	} {
		require.Equal(t, want, taskFailure(taskFailed(t, cause)))
	}
	require.Empty(t, taskFailure(scheduledSend(t)))
}

func TestReplayed_SaysWhenAHistoryDoesNotReplay(t *testing.T) {
	t.Parallel()
	temporal := &fakeTemporal{histories: map[string][]*historypb.HistoryEvent{
		"undecided": {taskFailed(t, "NON_DETERMINISTIC_ERROR")},
		"gone":      {nil},
		"strange":   {event(t, "WORKFLOW_TASK_COMPLETED", 4, `"workflowTaskCompletedEventAttributes": {}`)},
	}}
	s := Sources{Temporal: temporal, Histories: 10, Progress: func(string) {}}
	for _, id := range []string{"undecided", "gone"} {
		h, err := replayed(t.Context(), s, Run{WorkflowID: id})
		require.NoError(t, err)
		require.Nil(t, h, id)
	}
	f := &Facts{Runs: []Run{{WorkflowID: "strange"}, {WorkflowID: "undecided"}}}
	require.NoError(t, readHistorySample(t.Context(), s, f))
	require.Len(t, f.Histories, 1)
	require.NotEmpty(t, f.Histories[0].ReplayError)
	require.NoError(t, ignoreGone(serviceerror.NewNotFound("")))
	require.Error(t, ignoreGone(errors.New("away")))
}
