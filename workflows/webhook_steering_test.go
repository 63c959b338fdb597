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
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/contract"
	"example.com/checkout/workflows/webhook"
)

// steered runs the delivery with a receiver that refuses everything, and notes when.
func (w *sent) steered() []time.Duration {
	w.receiver.status = http.StatusInternalServerError
	began := w.env.Now()
	var attempts []time.Duration
	w.receiver.onPost = func() { attempts = append(attempts, w.env.Now().Sub(began).Round(time.Second)) }
	w.env.ExecuteWorkflow(contract.TypeWebhookDelivery, w.in)
	require.True(w.t, w.env.IsWorkflowCompleted())
	require.Equal(w.t, contract.ErrTypeDeliveryPermanentlyFailed, errType(w.env.GetWorkflowError()))
	require.Equal(w.t, webhook.DeliveryFailed, w.deliveryRow().Status)
	for i, a := range w.receiver.arrivals {
		require.Equal(w.t, strconv.Itoa(i+1), a.header.Get("X-Service-Attempt"))
		require.Equal(w.t, string(w.receiver.arrivals[0].body), string(a.body), "attempt %d sends the same bytes", i+1)
		require.Empty(w.t, a.header.Get("Idempotency-Key"))
	}
	require.Equal(w.t, len(attempts), w.count(`SELECT count(*) FROM webhook_attempt
		WHERE run = 1 AND status_code = 500 AND error_kind = 'http' AND duration_ms IS NOT NULL`))
	return attempts
}

const second, minute, hour = time.Second, time.Minute, time.Hour

func (w *sent) after(d time.Duration, do func()) { w.env.RegisterDelayedCallback(do, d) }

func (w *sent) retryNow() { w.env.SignalWorkflow(contract.SignalRetryNow, nil) }

func (w *sent) hold() { require.NoError(w.t, w.Webhooks.HoldDelivery(w.t.Context(), w.in.Ref)) }

func (w *sent) resume() {
	require.NoError(w.t, w.Webhooks.ResumeDelivery(w.t.Context(), w.in.Ref))
	w.env.SignalWorkflow(contract.SignalResume, nil)
}

func TestWebhookDelivery_MakesEachAttemptAtItsTime(t *testing.T) {
	t.Parallel()
	schedule := []time.Duration{0, 30 * second, 330 * second, 2130 * second, 9330 * second, 52530 * second}
	for name, c := range map[string]struct {
		steer func(*sent)
		want  []time.Duration
	}{
		"by its schedule":            {func(*sent) {}, schedule},
		"retry_now before the first": {func(w *sent) { w.after(0, w.retryNow) }, schedule},
		"retry_now in the second wait": {
			func(w *sent) { w.after(2*minute, w.retryNow) },
			[]time.Duration{0, 30 * second, 2 * minute, 32 * minute, 2*hour + 32*minute, 14*hour + 32*minute},
		},
		"retry_now in every wait": {func(w *sent) {
			for i := range 5 {
				w.after(time.Duration(i+1)*10*second, w.retryNow)
			}
		}, []time.Duration{0, 10 * second, 20 * second, 30 * second, 40 * second, 50 * second}},
		"retry_now twice in one wait": {
			func(w *sent) { w.after(10*second, w.retryNow); w.after(10*second, w.retryNow) },
			[]time.Duration{0, 10 * second, 310 * second, 2110 * second, 9310 * second, 52510 * second},
		},
		"retry_now in the last wait": {
			func(w *sent) { w.after(10*hour, w.retryNow) },
			[]time.Duration{0, 30 * second, 330 * second, 2130 * second, 9330 * second, 10 * hour},
		},
		// The API notes a retry_now in the row before it sends the signal.
		"retry_now whose signal comes late makes one attempt": {func(w *sent) {
			calls := 0
			before(w.env, w.deliveries.SendAttempt, func(context.Context) {
				if calls++; calls == 2 { // between the first attempt and its report
					require.NoError(w.t, w.Webhooks.HurryDelivery(context.Background(), w.in.Ref))
				}
			})
			w.after(second, w.retryNow)
		}, []time.Duration{0, second, 301 * second, 2101 * second, 9301 * second, 52501 * second}},
		"a hold that ends before the attempt is due": {
			func(w *sent) { w.after(10*second, w.hold); w.after(20*second, w.resume) }, schedule,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newDelivery(t)
			c.steer(w)
			require.Equal(t, c.want, w.steered())
		})
	}
}

func TestWebhookDelivery_AHoldUsesUpNoAttemptAndEarlierResumesDoNotWakeIt(t *testing.T) {
	w := newDelivery(t)
	looks := 0
	before(w.env, w.deliveries.SendAttempt, func(context.Context) { looks++ })
	w.after(10*second, func() {
		for range 1000 {
			w.env.SignalWorkflow(contract.SignalResume, nil)
		}
		w.hold()
	})
	w.after(10*minute, func() {
		require.Len(t, w.deliveryRow().Attempts, 1, "it came due at 30 s and waits")
		w.resume()
	})
	require.Equal(t, []time.Duration{0, 10 * minute, 15 * minute, 45 * minute, 2*hour + 45*minute, 14*hour + 45*minute}, w.steered())
	require.Less(t, looks, 12, "each look is an activity in the history")
}

func TestWebhookDelivery_ALongHistoryContinuesAsNewWithTheSameAttempts(t *testing.T) {
	w := newDelivery(t)
	w.receiver.status = http.StatusInternalServerError
	w.after(minute, w.retryNow) // the third
	w.after(2*minute, func() {
		w.env.SetContinueAsNewSuggested(true)
		w.retryNow()
	})
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
		w.Exec(w.t, `UPDATE webhook_delivery SET status = 'pending', run = 1, run_id = 'the first', attempts = 3, counted = 3, hurried_at = now(); DELETE FROM webhook_attempt WHERE run > 1 OR number > 3`)
		copied := continued
		copied.Continued = &contract.ContinuedDelivery{RunID: "the first", AttemptsMade: 3}
		env.ExecuteWorkflow(contract.TypeWebhookDelivery, copied)
		require.Equal(t, contract.ErrTypeDeliveryPermanentlyFailed, errType(env.GetWorkflowError()), name)
		require.Equal(t, c.run, w.deliveryRow().Run, name)
		require.Equal(t, c.made, w.count(`SELECT count(*) FROM webhook_attempt WHERE run = $1`, c.run), name)
	}
}

func (w *sent) runID() string {
	return w.text(`SELECT run_id FROM webhook_delivery WHERE id = $1`, w.in.ID)
}

func (w *sent) deliveryRow() webhook.Delivery {
	return must.Get(w.Webhooks.Delivery(w.t.Context(), w.in.Ref))(w.t)
}

// Whatever goes wrong before the request, the attempt is made soon after it was mended.
func TestWebhookDelivery_AFaultOfPostgreSQLUsesUpNoAttempt(t *testing.T) {
	t.Parallel()
	for code, c := range map[string]struct {
		from, until time.Duration
		late        int // the attempt that finds the fault
	}{
		"57P01": {0, 15 * second, 0},
		"XX001": {15 * second, 35 * second, 1},
	} {
		t.Run(code, func(t *testing.T) {
			w := newDelivery(t)
			w.after(c.from, func() { w.refuseWith("INSERT ON webhook_attempt", code) })
			w.after(c.until, func() { w.Exec(t, `DROP TRIGGER away ON webhook_attempt`) })
			got := w.steered()
			require.Len(t, got, 6)
			require.Greater(t, got[c.late], c.until-second)
			require.Less(t, got[c.late], minute)
			for i, gap := range []time.Duration{30 * second, 5 * minute, 30 * minute, 2 * hour, 12 * hour}[c.late:] {
				require.Equal(t, gap, got[c.late+i+1]-got[c.late+i])
			}
		})
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
				w.hold()
			}
			w.after(c.after, w.env.CancelWorkflow)

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
	require.Equal(t, []time.Duration{0, 30 * second, 330 * second, 2130 * second, 9330 * second, 52530 * second}, w.steered(), "not at 31 s")
	require.Equal(t, 8, n, "one came before its time")
}
