package invariant

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	historypb "go.temporal.io/api/history/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/encoding/protojson"

	"example.com/checkout/workflows/contract"
	"example.com/checkout/workflows/webhook"
)

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
	var r Run
	r.apply([]*historypb.HistoryEvent{
		event(t, "WORKFLOW_EXECUTION_SIGNALED", 6, `"workflowExecutionSignaledEventAttributes": {"signalName": "retry_now"}`),
		event(t, "WORKFLOW_EXECUTION_SIGNALED", 7, `"workflowExecutionSignaledEventAttributes": {"signalName": "hold"}`),
	})
	require.Equal(t, []time.Time{noon}, r.RetryNow)
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
