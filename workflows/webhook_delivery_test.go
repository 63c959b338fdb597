package workflows_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/sdk/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"example.com/checkout/activities"
	"example.com/checkout/storage"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/contract"
	"example.com/checkout/workflows/webhook"
)

// delivery creates one delivery of checkout.completed to the receiver.
func (w *world) delivery() contract.WebhookDeliveryInput {
	w.endpoint(webhook.CheckoutCompleted)
	w.completed(cardSucceeds)
	id := w.text(`SELECT id FROM webhook_delivery`)
	return contract.WebhookDeliveryInput{Ref: w.owner().Ref(id), EventType: webhook.CheckoutCompleted, Host: "127.0.0.1"}
}

func TestWebhookDelivery_StopsAtTheFirstSuccess(t *testing.T) {
	t.Parallel()
	for k := 1; k <= webhook.MaxAttempts; k++ {
		t.Run(strconv.Itoa(k), func(t *testing.T) {
			w := newDelivery(t)
			w.receiver.status = http.StatusBadGateway
			w.receiver.onPost = func() {
				if len(w.receiver.arrivals) == k {
					w.receiver.status = http.StatusNoContent
				}
			}
			w.env.ExecuteWorkflow(contract.TypeWebhookDelivery, w.in)
			require.NoError(t, w.env.GetWorkflowError())
			require.Len(t, w.receiver.arrivals, k)
			require.Equal(t, webhook.DeliveryDelivered, w.deliveryRow().Status)
		})
	}
}

// lose makes attempts of Temporal's count end as those of a killed worker do,
// before anything was done or, with done, after everything was.
func (w *world) lose(env *testsuite.TestWorkflowEnvironment, done bool, which ...int) {
	n := 0
	env.OnActivity(w.deliveries.SendAttempt, mock.Anything, mock.Anything).Return(
		func(ctx context.Context, in activities.SendAttemptInput) (contract.SendAttemptResult, error) {
			n++
			killed := slices.Contains(which, n)
			if !killed || done {
				got, err := w.deliveries.SendAttempt(ctx, in)
				if !killed {
					return got, err
				}
			}
			return contract.SendAttemptResult{}, temporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_START_TO_CLOSE, nil)
		})
}

func TestWebhookDelivery_AWorkerThatDiesBeforeAnAttemptUsesUpNone(t *testing.T) {
	t.Parallel()
	for _, killed := range [][]int{{1}, {3}, {6}, {1, 2}, {2, 6}, {5, 6, 7}} {
		t.Run(fmt.Sprint(killed), func(t *testing.T) {
			w := newDelivery(t)
			w.lose(w.env, false, killed...)
			require.Len(t, w.steered(), 6)
		})
	}
}

func TestWebhookDelivery_AnAcceptedLastAttemptWhoseReportIsLostDelivers(t *testing.T) {
	w := newDelivery(t)
	w.receiver.status = http.StatusInternalServerError
	w.receiver.onPost = func() {
		if len(w.receiver.arrivals) == webhook.MaxAttempts {
			w.receiver.status = http.StatusOK
		}
	}
	w.lose(w.env, true, webhook.MaxAttempts)
	got := execute[contract.WebhookDeliveryResult](t, w.env, contract.TypeWebhookDelivery, w.in)
	require.Equal(t, webhook.DeliveryDelivered, got.Status)
	require.Len(t, w.receiver.arrivals, webhook.MaxAttempts)
}

// A local activity whose worker dies is run again, and Temporal does not count.
func TestWebhookDelivery_AFirstAttemptWhoseWorkerDiesIsMadeOnce(t *testing.T) {
	t.Parallel()
	begin := func(w *world, ctx context.Context, in activities.SendAttemptInput) {
		_, err := w.Webhooks.BeginAttempt(ctx, in.Ref, webhook.Turn{
			RunID: activity.GetInfo(ctx).WorkflowExecution.RunID, Try: 1, Local: true, Now: w.deliveries.Now(),
		})
		require.NoError(w.t, err)
	}
	for _, c := range []struct {
		name    string
		answers int
		dies    func(w *world, ctx context.Context, in activities.SendAttemptInput) // before the call that runs it again
		arrive  []string
	}{
		{"before it was begun", http.StatusInternalServerError, func(*world, context.Context, activities.SendAttemptInput) {},
			[]string{"1", "2", "3", "4", "5", "6"}},
		{"before the request", http.StatusInternalServerError, begin, []string{"2", "3", "4", "5", "6"}},
		{"before the request, and PostgreSQL is away", http.StatusInternalServerError, func(w *world, ctx context.Context, in activities.SendAttemptInput) {
			begin(w, ctx, in)
			w.refuse("UPDATE ON webhook_delivery")
		}, []string{"2", "3", "4", "5", "6"}},
		{"after it was refused", http.StatusInternalServerError, func(w *world, ctx context.Context, in activities.SendAttemptInput) {
			_, _ = w.deliveries.SendAttempt(ctx, in)
		}, []string{"1", "2", "3", "4", "5", "6"}},
		{"after it was accepted", http.StatusOK, func(w *world, ctx context.Context, in activities.SendAttemptInput) {
			_, _ = w.deliveries.SendAttempt(ctx, in)
		}, []string{"1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newDelivery(t)
			w.receiver.status = c.answers
			calls := 0
			w.env.OnActivity(w.deliveries.SendAttempt, mock.Anything, mock.Anything).Return(
				func(ctx context.Context, in activities.SendAttemptInput) (contract.SendAttemptResult, error) {
					switch calls++; {
					case calls == 1:
						require.True(t, activity.GetInfo(ctx).IsLocalActivity)
						c.dies(w.world, ctx, in)
					case calls == 3:
						w.Exec(w.t, `DROP TRIGGER IF EXISTS away ON webhook_delivery`) // PostgreSQL is back
					}
					return w.deliveries.SendAttempt(ctx, in)
				})
			var attempts []time.Time
			w.receiver.onPost = func() { attempts = append(attempts, w.env.Now()) }
			w.env.ExecuteWorkflow(contract.TypeWebhookDelivery, w.in)
			require.Equal(t, c.arrive, w.receiver.attempts())
			if c.answers == http.StatusOK {
				require.NoError(t, w.env.GetWorkflowError())
				return
			}
			require.Equal(t, contract.ErrTypeDeliveryPermanentlyFailed, errType(w.env.GetWorkflowError()))
			require.Equal(t, 12*time.Hour, attempts[len(attempts)-1].Sub(attempts[len(attempts)-2]).Round(time.Second))
			require.Equal(t, webhook.MaxAttempts, w.count(`SELECT count(*) FROM webhook_attempt`))
		})
	}
}

func TestWebhookDelivery_WithoutARowFails(t *testing.T) {
	w := newWorld(t)
	env := w.env("whd_forged", time.Now())
	env.ExecuteWorkflow(contract.TypeWebhookDelivery, contract.WebhookDeliveryInput{Ref: w.owner().Ref("whd_forged")})
	require.Equal(t, contract.ErrTypeDeliveryWithoutRow, errType(env.GetWorkflowError()))
}

func TestWebhookDelivery_NotesASuccessThatPostgreSQLMissed(t *testing.T) {
	w := newDelivery(t)
	// PostgreSQL refuses to note the end of the attempt while the receiver has it.
	w.refuse("UPDATE ON webhook_attempt")
	w.env.RegisterDelayedCallback(func() { w.Exec(w.t, `DROP TRIGGER away ON webhook_attempt`) }, 10*time.Second)
	w.env.ExecuteWorkflow(contract.TypeWebhookDelivery, w.in)
	require.NoError(t, w.env.GetWorkflowError())
	require.Len(t, w.receiver.arrivals, 1, "a 2xx is never sent again for an outage of ours")
	require.Equal(t, webhook.DeliveryDelivered, w.deliveryRow().Status)
}

func TestWebhookDelivery_SignsWithTheSessionsSecret(t *testing.T) {
	w := newWorld(t)
	secret := webhook.NewSecret()
	address := w.receiver.URL
	s := must.Get(w.Sessions.CreateSession(t.Context(), storage.NewSession{Session: w.terms(&address), Lifetime: time.Hour, Secret: secret}, w.noWorkflow))(t)
	w.pay(s)
	in := contract.WebhookDeliveryInput{Ref: checkout.Ref{Owner: w.owner()}, EventType: webhook.CheckoutCompleted}
	in.ID = w.text(`SELECT id FROM webhook_delivery`)
	env := w.env(in.ID, time.Now())
	env.ExecuteWorkflow(contract.TypeWebhookDelivery, in)
	require.NoError(t, env.GetWorkflowError())
	a := w.receiver.arrivals[0]
	require.NoError(t, webhook.Verify(secret, a.header.Get("X-Service-Signature"), a.body, time.Now()))
	require.Equal(t, "1", a.header.Get("X-Service-Attempt"))
	require.Equal(t, in.ID, a.header.Get("X-Service-Delivery-Id"))
}

// TestWebhookDelivery_SaysForWhatItWaits: an operator reads it in Temporal's UI.
func TestWebhookDelivery_SaysForWhatItWaits(t *testing.T) {
	w := newDelivery(t)
	pending := contract.DeliveryState{Status: webhook.DeliveryPending}
	var a *activities.Deliveries
	w.env.OnActivity(a.SendAttempt, mock.Anything, mock.Anything).
		Return(contract.SendAttemptResult{DeliveryState: pending, Reason: contract.ReasonAway}, nil).Once()
	w.env.OnActivity(a.SendAttempt, mock.Anything, mock.Anything).
		Return(contract.SendAttemptResult{DeliveryState: contract.DeliveryState{Status: webhook.DeliveryDelivered}}, nil)
	var details string
	w.env.RegisterDelayedCallback(func() {
		answer := must.Get(w.env.QueryWorkflow("__temporal_workflow_metadata"))(t)
		var shown sdk.WorkflowMetadata
		require.NoError(t, answer.Get(&shown))
		details = shown.CurrentDetails
	}, time.Second)

	w.env.ExecuteWorkflow(contract.TypeWebhookDelivery, w.in)

	require.NoError(t, w.env.GetWorkflowError())
	require.Contains(t, details, "PostgreSQL is away, or a master key is missing")
	require.Contains(t, details, "the next try is at 2")
}
