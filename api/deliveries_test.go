package api

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"example.com/checkout/api/action"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// deliveryFront is a front end with one registration and one delivery to it.
type deliveryFront struct {
	*front
	endpoint, delivery string
	ref                checkout.Ref
}

func newDeliveryFront(t *testing.T) deliveryFront {
	f := newFront(t)
	endpoint, _ := f.newEndpoint(f.key)
	_, delivery := f.newDelivery(f.key, endpoint)
	return deliveryFront{f, endpoint, delivery, f.ref(delivery)}
}

func (f deliveryFront) get() answer {
	got := f.answers(200, "GET", "/v1/deliveries/"+f.delivery, f.key, "")
	return got
}

func (f deliveryFront) steer(action string) answer {
	return f.do("POST", "/v1/deliveries/"+f.delivery+"/"+action, f.key, "")
}

// attempt makes an attempt of a run. With status 0 the attempt stays under way.
func (f deliveryFront) attempt(run string, number, status int) {
	require.NoError(f.t, f.store.Webhooks.HurryAttempt(f.t.Context(), f.ref, run, time.Time{}))
	out, err := f.store.Webhooks.BeginAttempt(f.t.Context(), f.ref, webhook.Turn{RunID: run, Try: number})
	require.NoError(f.t, err)
	if status == 0 {
		return
	}
	a := webhook.Attempt{Run: out.Run, Number: number, Duration: 1500 * time.Millisecond, StatusCode: status, ResponseBody: []byte("no\xff")}
	if status >= 300 {
		a.ErrorKind = webhook.ErrorHTTP
	}
	require.NoError(f.t, f.store.Webhooks.FinishAttempt(f.t.Context(), f.ref, a, time.Hour))
}

func (f deliveryFront) end(status webhook.DeliveryStatus) {
	_, err := f.store.Webhooks.EndDelivery(f.t.Context(), f.ref, "", status)
	require.NoError(f.t, err)
}

func TestGetDelivery_ShowsItsAttempts(t *testing.T) {
	f := newDeliveryFront(t)
	got := f.get()
	require.Equal(t, []any{}, got.json["attempts"])
	require.Equal(t, f.endpoint, got.json["webhook_id"])
	require.Equal(t, f.delivery, got.json["workflow_id"])
	require.Equal(t, "https://shop.example/hook", got.json["url"])
	require.NotNil(t, got.json["next_attempt_at"])

	f.attempt("run", 1, 500)
	f.attempt("run", 2, 0)
	got = f.get()
	require.Nil(t, got.json["next_attempt_at"], "an attempt is under way")
	attempts := got.json["attempts"].([]any)
	require.Len(t, attempts, 2)
	first, second := attempts[0].(map[string]any), attempts[1].(map[string]any)
	for _, a := range []map[string]any{first, second} {
		require.Regexp(t, `Z$`, a["started_at"])
		delete(a, "started_at")
		require.Regexp(t, `Z$`, a["scheduled_at"])
		delete(a, "scheduled_at")
	}
	require.Equal(t, map[string]any{"run": 1.0, "number": 1.0, "duration_ms": 1500.0, "status_code": 500.0, "error": "http", "response_body": "no\ufffd"}, first)
	require.Equal(t, map[string]any{"run": 1.0, "number": 2.0, "duration_ms": nil, "status_code": nil, "error": nil, "response_body": nil}, second)
}

// TestReplayDelivery: the run that ended the delivery closes a moment after it wrote the row. The merchant must not
// notice that moment.
func TestReplayDelivery(t *testing.T) {
	t.Parallel()
	closing := serviceerror.NewWorkflowExecutionAlreadyStarted("x", "y", "z")
	starts := func(f deliveryFront) error { f.attempt("run-b", 1, 0); return nil }
	fails := func(err error) func(deliveryFront) error { return func(deliveryFront) error { return err } }
	for name, c := range map[string]struct {
		ended webhook.DeliveryStatus
		tries []func(deliveryFront) error // what each start of a run does; the last one again and again
		want  string                      // status, code, and the delivery's status
	}{
		"failed":                    {webhook.DeliveryFailed, []func(deliveryFront) error{starts}, "202 <nil> pending"},
		"delivered":                 {webhook.DeliveryDelivered, []func(deliveryFront) error{starts}, "202 <nil> pending"},
		"canceled":                  {webhook.DeliveryCanceled, []func(deliveryFront) error{starts}, "202 <nil> pending"},
		"its last run is closing":   {webhook.DeliveryFailed, []func(deliveryFront) error{fails(closing), fails(closing), starts}, "202 <nil> pending"},
		"its last run never closes": {webhook.DeliveryFailed, []func(deliveryFront) error{fails(closing)}, "409 delivery_in_progress failed"},
		"of two at once, one starts": {webhook.DeliveryFailed, []func(deliveryFront) error{
			func(f deliveryFront) error { _ = starts(f); return closing }}, "409 delivery_in_progress pending"},
		"nobody knows whether it started": {webhook.DeliveryFailed, []func(deliveryFront) error{fails(context.DeadlineExceeded)}, "503 unavailable failed"},
		"the run takes longer":            {webhook.DeliveryFailed, []func(deliveryFront) error{fails(nil)}, "202 <nil> failed"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newDeliveryFront(t)
			f.attempt("run-a", 1, map[bool]int{true: 200, false: 500}[c.ended == webhook.DeliveryDelivered])
			f.end(c.ended)
			require.Equal(t, string(c.ended), f.get().json["status"])
			tries := 0
			f.temporal.Start = func(o client.StartWorkflowOptions) error {
				require.Equal(t, f.delivery, o.ID)
				require.Equal(t, enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE, o.WorkflowIDReusePolicy)
				require.True(t, o.WorkflowExecutionErrorWhenAlreadyStarted)
				tries++
				return c.tries[min(tries, len(c.tries))-1](f)
			}
			began := time.Now()
			got := f.steer("replay")
			require.Equal(t, c.want, fmt.Sprint(got.refused(), " ", f.get().json["status"]), got.body)
			require.Less(t, time.Since(began), action.SettleTimeout+3*time.Second)
			require.GreaterOrEqual(t, tries, len(c.tries))
			if strings.HasSuffix(c.want, "pending") {
				require.Len(t, c.tries, tries, "what has started is not started again")
			}
			if c.want == "202 <nil> pending" {
				require.EqualValues(t, 2, got.json["run"])
				require.Equal(t, "pending", got.json["status"])
			}
			if name == "the run takes longer" {
				require.GreaterOrEqual(t, time.Since(began), action.SettleTimeout)
			}
		})
	}
}

func TestReplayDelivery_NeedsItsEndAndItsRegistration(t *testing.T) {
	f := newDeliveryFront(t)
	require.Equal(t, "409 delivery_in_progress", f.steer("replay").refused())
	f.end(webhook.DeliveryFailed)
	f.do("DELETE", "/v1/webhooks/"+f.endpoint, f.key, "")
	require.Equal(t, "409 webhook_deleted", f.steer("replay").refused())
	f.exec(`UPDATE webhook_delivery SET session_url = true`)
	require.Equal(t, 202, f.steer("replay").status, "a session's own URL outlives the registration that signs")
}

func TestRetryDelivery_SignalsTheRun(t *testing.T) {
	f := newDeliveryFront(t)
	for name, err := range map[string]error{
		"woken":                             nil,
		"its run is gone: Reconcile's work": serviceerror.NewNotFound("x"),
	} {
		signals := []string{}
		f.temporal.Signal = func(id, name string) error {
			signals = append(signals, id+" "+name)
			return err
		}
		got := f.steer("retry_now")
		require.Equal(t, 202, got.status, name)
		require.Equal(t, f.delivery, got.json["id"])
		require.Equal(t, []string{f.delivery + " retry_now"}, signals, name)
	}
	f.temporal.Signal = func(string, string) error { return errors.New("inner words") }
	got := f.steer("retry_now")
	require.Equal(t, 503, got.status)
	require.NotContains(t, got.body, "inner words")
}

func TestRetryDelivery_SaysWhyNot(t *testing.T) {
	f := newDeliveryFront(t)
	f.temporal.Signal = func(string, string) error { panic("nothing is to be woken") }
	f.steer("hold")
	require.Equal(t, "409 delivery_held", f.steer("retry_now").refused())
	f.exec(`UPDATE webhook_delivery SET held = false`)
	f.do("POST", "/v1/webhooks/"+f.endpoint+"/hold", f.key, "")
	require.Equal(t, "409 delivery_held", f.steer("retry_now").refused())
	f.do("POST", "/v1/webhooks/"+f.endpoint+"/resume", f.key, "")
	f.attempt("run", 1, 0)
	require.Equal(t, "409 delivery_in_progress", f.steer("retry_now").refused())
	f.end(webhook.DeliveryFailed)
	require.Equal(t, "409 delivery_not_pending", f.steer("retry_now").refused())
}

func TestHoldDelivery_AndResume(t *testing.T) {
	f := newDeliveryFront(t)
	signals := []string{}
	answer := error(nil)
	f.temporal.Signal = func(id, name string) error {
		signals = append(signals, id+" "+name)
		return answer
	}
	for range 2 {
		got := f.steer("hold")
		require.Equal(t, 200, got.status)
		require.Equal(t, true, got.json["held"])
		require.Nil(t, got.json["next_attempt_at"])
		require.Equal(t, got.body, f.get().body)
	}
	require.Empty(t, signals, "an attempt that comes due asks the row")
	for range 3 {
		f.steer("hold")
		require.Equal(t, 200, f.steer("resume").status)
		require.Equal(t, 200, f.steer("resume").status)
	}
	require.Empty(t, signals, "each would stay in the history of a run that does not wait for it")
	for _, answer = range []error{nil, serviceerror.NewNotFound("x"), errors.New("Temporal is away")} {
		f.steer("hold")
		f.exec(`UPDATE webhook_delivery SET parked_at = now()`) // it came due
		got := f.steer("resume")
		require.Equal(t, 200, got.status)
		require.Equal(t, false, got.json["held"])
		require.NotNil(t, got.json["next_attempt_at"])
	}
	require.Equal(t, []string{f.delivery + " resume", f.delivery + " resume", f.delivery + " resume"}, signals)

	f.steer("hold")
	f.do("POST", "/v1/webhooks/"+f.endpoint+"/hold", f.key, "")
	got := f.steer("resume")
	require.Equal(t, 200, got.status)
	require.Equal(t, true, got.json["held"], "its registration is on hold too")
	require.Len(t, signals, 3)

	f.end(webhook.DeliveryCanceled)
	for _, action := range []string{"hold", "resume"} {
		require.Equal(t, "409 delivery_not_pending", f.steer(action).refused())
	}
	require.Equal(t, false, f.get().json["held"])
}
