package storage_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// step is a call in the life of a delivery, with its answer and what the API shows of the delivery afterwards: see
// scene.shown.
type step struct {
	call          call
	answer, shown string
}

const (
	notPending = "refused: delivery is not pending"
	onHold     = "refused: delivery is on hold"
)

func TestDelivery_ItsLife(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		steps []step
	}{
		{"on hold it parks without an attempt", []step{
			{holds, "<nil>", "pending 0/0 held"},
			{comes("run-a", 1), "1/0 pending park", "pending 1/0 held"},
			{comes("run-a", 1), "1/0 pending park", "pending 1/0 held"},
			{fails("run-a"), "pending 0", "pending 1/0 held"},
			{resumes, "<nil>", "pending 1/0 due"},
			{comes("run-a", 1), "1/1 pending begin", "pending 1/1"},
		}},
		{"while its registration is on hold it parks without an attempt", []step{
			{sets(webhook.EndpointDisabled), "disabled", "pending 0/0 held"},
			{comes("run-a", 1), "1/0 pending park", "pending 1/0 held"},
			{fails("run-a"), "pending 0", "pending 1/0 held"},
			{sets(webhook.EndpointEnabled), "enabled", "pending 1/0 due"},
			{comes("run-a", 1), "1/1 pending begin", "pending 1/1"},
		}},
		{"a hold ends when the attempt under way is accepted, and holds no replay", []step{
			{comes("run-a", 1), "1/1 pending begin", "pending 1/1"},
			{holds, "<nil>", "pending 1/1 held"},
			{ends(accepted), "<nil>", "delivered 1/1 ended"},
			{holds, notPending, "delivered 1/1 ended"},
			{resumes, notPending, "delivered 1/1 ended"},
			{comes("run-b", 1), "2/1 pending begin", "pending 2/2"},
		}},
		{"a hold outlasts a failure that is retried, and ends with the last one", []step{
			{comes("run-a", 1), "1/1 pending begin", "pending 1/1"},
			{holds, "<nil>", "pending 1/1 held"},
			{ends(refused(1, 1)), "<nil>", "pending 1/1 held"},
			{gives(webhook.DeliveryFailed), "failed", "failed 1/1 ended"},
			{holds, notPending, "failed 1/1 ended"},
			{comes("run-b", 1), "2/1 pending begin", "pending 2/2"},
		}},
		{"a hold ends when an operator cancels", []step{
			{holds, "<nil>", "pending 0/0 held"},
			{gives(webhook.DeliveryCanceled), "canceled", "canceled 0/0 ended"},
			{resumes, notPending, "canceled 0/0 ended"},
			{comes("run-b", 1), "1/1 pending begin", "pending 1/1"},
		}},
		{"it is canceled when its registration is deleted", []step{
			{deletes, "<nil>", "pending 0/0 deleted due"},
			{comes("run-a", 1), "0/0 canceled end", "canceled 0/0 deleted ended"},
		}},
		{"a deleted registration leaves what has ended to a late replay", []step{
			{comes("run-a", 1), "1/1 pending begin", "pending 1/1"},
			{ends(accepted), "<nil>", "delivered 1/1 ended"},
			{deletes, "<nil>", "delivered 1/1 deleted ended"},
			{comes("run-b", 1), "1/0 delivered end", "delivered 1/1 deleted ended"},
		}},
		{"the first attempt again after it was finished is a reset activity: it all begins anew", []step{
			{comes("run-a", 1), "1/1 pending begin", "pending 1/1"},
			{ends(refused(1, 1)), "<nil>", "pending 1/1 in 1h0m0s"},
			{comes("run-a", 1), "2/0 pending again", "pending 2/1 due"},
			{comes("run-a", 1), "2/1 pending begin", "pending 2/2"},
			{comes("run-a", 1), "2/1 pending begin", "pending 2/2"}, // the first answer was lost
			{fails("run-a"), "pending 1", "pending 2/2"},
		}},
		{"an attempt that was noted and is unfinished may begin again", []step{
			{comes("run-a", 1), "1/1 pending begin", "pending 1/1"},
			{comes("run-a", 1), "1/1 pending begin", "pending 1/1"},
		}},
		{"the old run has no say in a replay", []step{
			{comes("run-a", 1), "1/1 pending begin", "pending 1/1"},
			{gives(webhook.DeliveryFailed), "failed", "failed 1/1 ended"},
			{comes("run-b", 1), "2/1 pending begin", "pending 2/2"},
			{gives(webhook.DeliveryFailed), "pending", "pending 2/2"},
			{ends(accepted), "<nil>", "pending 2/2"},
		}},
		{"an attempt is not made before it is due, and nothing is noted", []step{
			{comes("run-a", 1), "1/1 pending begin", "pending 1/1"},
			{ends(refused(1, 1)), "<nil>", "pending 1/1 in 1h0m0s"},
			{triesAgain, "1/0 pending early 1h0m0s", "pending 1/1 in 1h0m0s"},
		}},
		{"a deferral never brings an attempt forward, and shows how many come first until it begins", []step{
			{defers(time.Minute, 57), "<nil>", "pending 0/0 in 1m0s 57 ahead"},
			{comes("run-a", 1), "1/1 pending begin", "pending 1/1"},
			{ends(refused(1, 1)), "<nil>", "pending 1/1 in 1h0m0s"},
			{defers(time.Minute, 0), "<nil>", "pending 1/1 in 1h0m0s 0 ahead"},
			{defers(2*time.Hour, 0), "<nil>", "pending 1/1 in 2h0m0s 0 ahead"},
		}},
		{"it is hurried unless it cannot be", []step{
			{hurries, "<nil>", "pending 0/0 due"},
			{hurries, "<nil>", "pending 0/0 due"},
			{holds, "<nil>", "pending 0/0 held"},
			{holds, "<nil>", "pending 0/0 held"},
			{hurries, onHold, "pending 0/0 held"},
			{resumes, "<nil>", "pending 0/0 due"},
			{resumes, "<nil>", "pending 0/0 due"},
			{sets(webhook.EndpointDisabled), "disabled", "pending 0/0 held"},
			{hurries, onHold, "pending 0/0 held"},
			{sets(webhook.EndpointEnabled), "enabled", "pending 0/0 due"},
			{comes("run-a", 1), "1/1 pending begin", "pending 1/1"},
			{hurries, "refused: delivery in progress", "pending 1/1"},
			{ends(refused(1, 1)), "<nil>", "pending 1/1 in 1h0m0s"},
			{hurries, "<nil>", "pending 1/1 in 1h0m0s"},
			{comes("run-a", 2), "1/2 pending begin", "pending 1/2"},
			{workerDies, "1", "pending 1/2 in 3m0s"},
			{hurries, "<nil>", "pending 1/2 in 3m0s"},
			{gives(webhook.DeliveryFailed), "failed", "failed 1/2 ended"},
			{hurries, notPending, "failed 1/2 ended"},
		}},
		// Temporal does not count the first attempt, which is a local activity, until the activity that is scheduled
		// after it has failed as that attempt did.
		{"Temporal counts the first attempt once", []step{
			{tries("run-a"), "1/1 pending begin", "pending 1/1"},
			{ends(refused(1, 1)), "<nil>", "pending 1/1 in 1h0m0s"},
			{reports(2), "early 500 http 1h0m0s", "pending 1/1 in 1h0m0s"},
			{reports(1), "report 500 http 1h0m0s", "pending 1/1 in 1h0m0s"},
			{triesOnce, "2/0 pending again", "pending 2/1 due"}, // an operator reset the activity
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := sent(t, newFixture(t))
			for i, step := range c.steps {
				require.Equal(t, step.answer, s.answer(step.call), "step %d", i+1)
				require.Equal(t, step.shown, s.shown(t), "after step %d", i+1)
			}
		})
	}
}

func (s scene) answer(c call) string {
	got, err := c(s)
	if err != nil {
		got = "refused: " + err.Error()
	}
	return fmt.Sprintf("%+v", got)
}

// shown has the delivery's status, its run and the number of all its attempts, and when the next one follows.
func (s scene) shown(t *testing.T) string {
	d := s.read(t, s.ref)
	words := fmt.Sprintf("%s %d/%d", d.Status, d.Run, len(d.Attempts))
	if d.Held {
		words += " held"
	}
	if d.EndpointDeleted {
		words += " deleted"
	}
	if d.FinishedAt != nil {
		words += " ended"
	}
	if d.NextAttemptAt != nil {
		if in := time.Until(*d.NextAttemptAt).Round(time.Minute); in > 0 {
			words += " in " + in.String()
		} else {
			words += " due"
		}
	}
	if d.AttemptsAhead != nil {
		words += fmt.Sprint(" ", *d.AttemptsAhead, " ahead")
	}
	return words
}

// sent arranges the delivery of a test event.
func sent(t *testing.T, f fixture) scene {
	s := registered(t, f)
	_, s.ref = f.publishTest(t, s.endpoint, webhook.PayoutSent)
	return s
}

// comes tries an attempt whose time has come.
func comes(runID string, number int) call {
	return func(s scene) (any, error) {
		if err := s.Webhooks.HurryAttempt(bg, s.ref, runID, time.Time{}); err != nil {
			return nil, err
		}
		return attempted(s.Webhooks.BeginAttempt(bg, s.ref, webhook.Turn{RunID: runID, Try: number}))
	}
}

func triesOnce(s scene) (any, error) {
	return attempted(s.Webhooks.BeginAttempt(bg, s.ref, webhook.Turn{RunID: "run-a", Try: 1}))
}

func triesAgain(s scene) (any, error) {
	got, err := s.Webhooks.BeginAttempt(bg, s.ref, webhook.Turn{RunID: "run-a", Try: 2})
	return fmt.Sprintf("%d/%d %s %s %s", got.Run, got.Number, got.Status, got.Step, got.Wait.Round(time.Minute)), err
}

func reports(try int) call {
	return func(s scene) (any, error) {
		got, err := s.Webhooks.ReportAttempt(bg, s.ref, webhook.Turn{RunID: "run-a", Try: try})
		return fmt.Sprint(got.Step, " ", got.Last.StatusCode, " ", got.Last.ErrorKind, " ", got.Wait.Round(time.Minute)), err
	}
}

func resumes(s scene) (any, error) { return nil, s.Webhooks.ResumeDelivery(bg, s.ref) }
func hurries(s scene) (any, error) { return nil, s.Webhooks.HurryDelivery(bg, s.ref) }

func fails(runID string) call {
	return func(s scene) (any, error) {
		got, err := s.Webhooks.FailDelivery(bg, s.ref, runID)
		return fmt.Sprint(got.Status, " ", got.Attempts), err
	}
}

func sets(status webhook.EndpointStatus) call {
	return func(s scene) (any, error) {
		got, err := s.Webhooks.ChangeEndpoint(bg, s.endpoint.Ref, storage.EndpointChange{Status: &status})
		return got.Status, err
	}
}

func defers(wait time.Duration, ahead int) call {
	return func(s scene) (any, error) { return nil, s.Webhooks.DeferAttempt(bg, s.ref, wait, ahead) }
}

func workerDies(s scene) (any, error) {
	tag, err := s.Pool().Exec(bg, `UPDATE webhook_delivery SET sending_until = clock_timestamp() - interval '1 second'`)
	return tag.RowsAffected(), err
}

func TestDelivery_IsNotFoundForOthers(t *testing.T) {
	f := newFixture(t)
	for _, s := range foreign(f.delivery(t)) {
		other := scene{fixture: f, ref: s}
		for _, c := range []call{hurries, holds, resumes, triesOnce, gives(webhook.DeliveryFailed)} {
			_, err := c(other)
			require.ErrorIs(t, err, checkout.ErrNotFound)
		}
	}
}
