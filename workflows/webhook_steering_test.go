package workflows_test

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"example.com/checkout/activities"
	"example.com/checkout/workflows/contract"
	"example.com/checkout/workflows/webhook"
)

// steered runs the delivery with a receiver that refuses everything, and notes when.
func (w *sent) steered() []time.Duration {
	w.t.Helper()
	w.receiver.status = http.StatusInternalServerError
	began := w.env.Now()
	var attempts []time.Duration
	w.receiver.onPost = func() { attempts = append(attempts, w.env.Now().Sub(began).Round(time.Second)) }
	w.env.ExecuteWorkflow(contract.TypeWebhookDelivery, w.in)
	require.True(w.t, w.env.IsWorkflowCompleted())
	require.Equal(w.t, contract.ErrTypeDeliveryPermanentlyFailed, errType(w.env.GetWorkflowError()))
	for i, number := range w.receiver.attempts() {
		require.Equal(w.t, strconv.Itoa(i+1), number)
	}
	require.Equal(w.t, len(attempts), w.count(`SELECT count(*) FROM webhook_attempt WHERE run = 1 AND duration_ms IS NOT NULL`))
	return attempts
}

const second, minute, hour = time.Second, time.Minute, time.Hour

func TestWebhookDelivery_AHoldThatEndsBeforeTheAttemptIsDueChangesNothing(t *testing.T) {
	w := newDelivery(t)
	w.env.RegisterDelayedCallback(func() { require.NoError(t, w.Webhooks.HoldDelivery(t.Context(), w.in.Ref)) }, 10*second)
	w.env.RegisterDelayedCallback(func() {
		require.NoError(t, w.Webhooks.ResumeDelivery(t.Context(), w.in.Ref))
		w.env.SignalWorkflow(contract.SignalResume, nil)
	}, 20*second)
	got := w.steered()
	require.Equal(t, []time.Duration{0, 30 * second, 330 * second, 2130 * second, 9330 * second, 52530 * second}, got)
}

func TestWebhookDelivery_AHoldUsesUpNoAttemptAndEarlierResumesDoNotWakeIt(t *testing.T) {
	w := newDelivery(t)
	looks := 0
	before(w.env, w.deliveries.SendAttempt, func(context.Context) { looks++ })
	w.env.RegisterDelayedCallback(func() {
		for range 1000 {
			w.env.SignalWorkflow(contract.SignalResume, nil)
		}
		require.NoError(t, w.Webhooks.HoldDelivery(t.Context(), w.in.Ref))
	}, 10*second)
	w.env.RegisterDelayedCallback(func() {
		require.Len(t, w.deliveryRow().Attempts, 1, "it came due at 30 s and waits")
		require.NoError(t, w.Webhooks.ResumeDelivery(t.Context(), w.in.Ref))
		w.env.SignalWorkflow(contract.SignalResume, nil)
	}, 10*minute)
	got := w.steered()
	require.Equal(t, []time.Duration{0, 10 * minute, 15 * minute, 45 * minute, 2*hour + 45*minute, 14*hour + 45*minute}, got)
	require.Less(t, looks, 12, "each look is an activity in the history")
}

func TestWebhookDelivery_ALongHistoryContinuesAsNewWithTheSameAttempts(t *testing.T) {
	w := newDelivery(t)
	w.receiver.status = http.StatusInternalServerError
	w.env.RegisterDelayedCallback(func() { w.env.SignalWorkflow(contract.SignalRetryNow, nil) }, minute) // the third
	w.env.RegisterDelayedCallback(func() {
		w.env.SetContinueAsNewSuggested(true)
		w.env.SignalWorkflow(contract.SignalRetryNow, nil)
	}, 2*minute)
	w.env.ExecuteWorkflow(contract.TypeWebhookDelivery, w.in)
	var next *workflow.ContinueAsNewError
	require.ErrorAs(t, w.env.GetWorkflowError(), &next)
	var continued contract.WebhookDeliveryInput
	require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(next.Input, &continued))
	require.Equal(t, &contract.ContinuedDelivery{RunID: w.runID(), AttemptsMade: 3}, continued.Continued)
	require.Len(t, w.receiver.arrivals, 3)

	for name, c := range map[string]struct {
		continues string // the run before, as Temporal says
		run, made int
	}{
		"the next run":                   {"the run before", 1, 6},
		"a copy that an operator starts": {"", 2, 6},
	} {
		env := w.world.env(w.in.ID, time.Now())
		env.SetContinuedExecutionRunID(c.continues)
		w.exec(`UPDATE webhook_delivery SET status = 'pending', run = 1, run_id = 'the first', attempts = 3, counted = 3, hurried_at = now(); DELETE FROM webhook_attempt WHERE run > 1 OR number > 3`)
		copied := continued
		copied.Continued = &contract.ContinuedDelivery{RunID: "the first", AttemptsMade: 3}
		env.ExecuteWorkflow(contract.TypeWebhookDelivery, copied)
		require.Equal(t, contract.ErrTypeDeliveryPermanentlyFailed, errType(env.GetWorkflowError()), name)
		require.Equal(t, c.run, w.deliveryRow().Run, name)
		require.Equal(t, c.made, w.count(`SELECT count(*) FROM webhook_attempt WHERE run = $1`, c.run), name)
	}
}

func (w *sent) runID() string {
	w.t.Helper()
	return w.text(`SELECT run_id FROM webhook_delivery WHERE id = $1`, w.in.ID)
}

func (w *sent) deliveryRow() webhook.Delivery {
	w.t.Helper()
	d, err := w.Webhooks.Delivery(w.t.Context(), w.in.Ref)
	require.NoError(w.t, err)
	return d
}

func TestWebhookDelivery_RetryNowMakesTheNextAttemptAtOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ asked, want []time.Duration }{
		"before the first": {[]time.Duration{0}, []time.Duration{
			0, 30 * second, 330 * second, 2130 * second, 9330 * second, 52530 * second,
		}},
		"in the second wait": {[]time.Duration{2 * minute}, []time.Duration{
			0, 30 * second, 2 * minute, 32 * minute, 2*hour + 32*minute, 14*hour + 32*minute,
		}},
		"in every wait": {[]time.Duration{10 * second, 20 * second, 30 * second, 40 * second, 50 * second}, []time.Duration{
			0, 10 * second, 20 * second, 30 * second, 40 * second, 50 * second,
		}},
		"twice in one wait": {[]time.Duration{10 * second, 10 * second}, []time.Duration{
			0, 10 * second, 310 * second, 2110 * second, 9310 * second, 52510 * second,
		}},
		"in the last wait": {[]time.Duration{10 * hour}, []time.Duration{
			0, 30 * second, 330 * second, 2130 * second, 9330 * second, 10 * hour,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newDelivery(t)
			for _, at := range c.asked {
				w.env.RegisterDelayedCallback(func() { w.env.SignalWorkflow(contract.SignalRetryNow, nil) }, at)
			}
			got := w.steered()
			require.Equal(t, c.want, got)
		})
	}
}

func TestWebhookDelivery_AnOutageOfPostgreSQLUsesUpNoAttempt(t *testing.T) {
	w := newDelivery(t)
	w.refuse("INSERT ON webhook_attempt")
	w.env.RegisterDelayedCallback(func() { w.exec(`DROP TRIGGER away ON webhook_attempt`) }, 15*second)
	got := w.steered()
	require.Len(t, got, 6)
	require.Less(t, got[0], minute)
	for i, gap := range []time.Duration{30 * second, 5 * minute, 30 * minute, 2 * hour, 12 * hour} {
		require.Equal(t, gap, got[i+1]-got[i])
	}
}

func TestWebhookDelivery_WhateverGoesWrongBeforeTheRequestUsesUpNoAttempt(t *testing.T) {
	w := newDelivery(t)
	w.env.RegisterDelayedCallback(func() { w.refuseWith("INSERT ON webhook_attempt", "XX001") }, 15*second)
	w.env.RegisterDelayedCallback(func() { w.exec(`DROP TRIGGER away ON webhook_attempt`) }, 35*second)
	got := w.steered()
	require.Len(t, got, 6)
	require.Less(t, got[1], minute, "and the attempt is made soon after it was mended")
	for i, gap := range []time.Duration{5 * minute, 30 * minute, 2 * hour, 12 * hour} {
		require.Equal(t, gap, got[i+2]-got[i+1])
	}
}

func TestWebhookDelivery_CanceledByAnOperator(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		held     bool
		after    time.Duration
		attempts int
	}{
		"before its first attempt": {false, 0, 0},
		"between attempts":         {false, minute, 2},
		"while it is parked":       {true, minute, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newDelivery(t)
			w.receiver.status = http.StatusInternalServerError
			if c.held {
				require.NoError(t, w.Webhooks.HoldDelivery(t.Context(), w.in.Ref))
			}
			w.env.RegisterDelayedCallback(w.env.CancelWorkflow, c.after)

			w.env.ExecuteWorkflow(contract.TypeWebhookDelivery, w.in)

			require.NoError(t, w.env.GetWorkflowError())
			require.Equal(t, webhook.DeliveryCanceled, w.deliveryRow().Status)
			require.Len(t, w.receiver.arrivals, c.attempts)
		})
	}
}

// After a crash Temporal may hand out a task twice; the second one would begin the next attempt at once.
func TestWebhookDelivery_AnAttemptThatComesBeforeItsTimeIsNotMade(t *testing.T) {
	w := newDelivery(t)
	n := 0
	real := w.deliveries.SendAttempt
	w.env.OnActivity(w.deliveries.SendAttempt, mock.Anything, mock.Anything).Return(
		func(ctx context.Context, in activities.SendAttemptInput) (contract.SendAttemptResult, error) {
			result, err := real(ctx, in)
			var refused *temporal.ApplicationError
			if n++; n == 3 && errors.As(err, &refused) { // after the local attempt and its report, the server loses a delay
				err = temporal.NewApplicationErrorWithOptions("early", refused.Type(), temporal.ApplicationErrorOptions{NextRetryDelay: time.Second})
			}
			return result, err
		})
	got := w.steered()
	require.Equal(t, []time.Duration{0, 30 * second, 330 * second, 2130 * second, 9330 * second, 52530 * second}, got, "not at 31 s")
	require.Equal(t, 8, n, "one came before its time")
}

// The API notes a retry_now in the row before it sends the signal.
func TestWebhookDelivery_ARetryNowWhoseSignalComesLateMakesOneAttempt(t *testing.T) {
	w := newDelivery(t)
	calls := 0
	before(w.env, w.deliveries.SendAttempt, func(context.Context) {
		if calls++; calls == 2 { // between the first attempt and its report
			require.NoError(t, w.Webhooks.HurryDelivery(context.Background(), w.in.Ref))
		}
	})
	w.env.RegisterDelayedCallback(func() { w.env.SignalWorkflow(contract.SignalRetryNow, nil) }, second)
	got := w.steered()
	require.Equal(t, []time.Duration{0, second, 301 * second, 2101 * second, 9301 * second, 52501 * second}, got)
}
