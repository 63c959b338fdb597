package storage_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/storage"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// limited returns n deliveries to a registration with limits; 0 is none.
func (f fixture) limited(t *testing.T, n, maxInFlight, rateLimit int) (webhook.Endpoint, []checkout.Ref) {
	e := f.endpoint(t, "https://shop.example/limited", webhook.PayoutSent)
	must.Get(f.Webhooks.ChangeEndpoint(t.Context(), e.Ref, storage.EndpointChange{MaxInFlight: &maxInFlight, RateLimit: &rateLimit}))(t)
	var refs []checkout.Ref
	for range n {
		_, ref := f.publishTest(t, e, webhook.PayoutSent)
		refs = append(refs, ref)
	}
	return e, refs
}

// TestBeginAttempt_KeepsMaxInFlightAmongAllWorkers: the workers' statements run at the same time.
func TestBeginAttempt_KeepsMaxInFlightAmongAllWorkers(t *testing.T) {
	f := newFixture(t)
	_, refs := f.limited(t, 20, 3, 0)
	var began, busy atomic.Int64
	var workers sync.WaitGroup
	for _, ref := range refs {
		workers.Go(func() {
			out, err := f.Webhooks.BeginAttempt(t.Context(), ref, webhook.Turn{RunID: "run-" + ref.ID, Try: 1, Local: true})
			if err != nil {
				t.Error(err)
			}
			switch out.Step {
			case webhook.StepBegin:
				began.Add(1)
			case webhook.StepBusy:
				busy.Add(1)
			}
		})
	}
	workers.Wait()
	require.Equal(t, [2]int64{3, 17}, [2]int64{began.Load(), busy.Load()})
}

func TestLeavePlace_GivesThePlaceToTheNext(t *testing.T) {
	f := newFixture(t)
	_, refs := f.limited(t, 2, 1, 0)
	step := func(ref checkout.Ref, now time.Time) webhook.Step {
		out := must.Get(f.Webhooks.BeginAttempt(t.Context(), ref, webhook.Turn{RunID: "run-" + ref.ID, Try: 1, Local: true, Now: now}))(t)
		return out.Step
	}
	require.Equal(t, webhook.StepBegin, step(refs[0], time.Time{}))
	require.Equal(t, webhook.StepBusy, step(refs[1], time.Time{}))
	require.Zero(t, f.read(t, refs[1]).Run, "nothing is noted")
	other := refs[0]
	other.MerchantID = checkout.NewID(checkout.PrefixMerchant)
	require.NoError(t, f.Webhooks.LeavePlace(t.Context(), other))
	require.Equal(t, webhook.StepBusy, step(refs[1], time.Time{}), "another merchant gives nothing back")
	require.NoError(t, f.Webhooks.LeavePlace(t.Context(), refs[0]))
	require.Equal(t, webhook.StepBegin, step(refs[1], time.Time{}))
}

func TestBeginAttempt_TakesThePlaceOfAWorkerThatDied(t *testing.T) {
	f := newFixture(t)
	_, refs := f.limited(t, 2, 1, 0)
	f.begin(t, refs[0], "run-a", 1)
	out, err := f.Webhooks.BeginAttempt(t.Context(), refs[1], webhook.Turn{RunID: "run-b", Try: 1, Now: time.Now().Add(14 * time.Second)})
	require.NoError(t, err)
	require.Equal(t, webhook.StepBusy, out.Step)
	out, err = f.Webhooks.BeginAttempt(t.Context(), refs[1], webhook.Turn{RunID: "run-b", Try: 1, Now: time.Now().Add(16 * time.Second)})
	require.NoError(t, err)
	require.Equal(t, webhook.StepBegin, out.Step)
}

func TestBeginAttempt_KeepsTheRateLimitAmongAllWorkers(t *testing.T) {
	f := newFixture(t)
	_, refs := f.limited(t, 2, 0, 1)
	now := time.Now()
	begin := func(ref checkout.Ref, at time.Duration) storage.AttemptDecision {
		out := must.Get(f.Webhooks.BeginAttempt(t.Context(), ref, webhook.Turn{RunID: "run-" + ref.ID, Try: 1, Now: now.Add(at)}))(t)
		return out
	}
	require.Equal(t, webhook.StepBegin, begin(refs[0], 0).Step)
	early := begin(refs[1], 300*time.Millisecond)
	require.Equal(t, webhook.StepBusy, early.Step)
	require.InDelta(t, 0.7, early.Wait.Seconds(), 0.01)
	require.Equal(t, webhook.StepBegin, begin(refs[1], time.Second).Step)
}

func TestPauseEndpoint_HoldsBackItsAttemptsAndNoOthers(t *testing.T) {
	f := newFixture(t)
	_, refs := f.limited(t, 2, 0, 0)
	f.begin(t, refs[0], "run-a", 1)
	other := refs[0]
	other.MerchantID = checkout.NewID(checkout.PrefixMerchant)
	require.NoError(t, f.Webhooks.PauseEndpoint(t.Context(), other, time.Hour))
	require.NoError(t, f.Webhooks.PauseEndpoint(t.Context(), refs[0], 20*time.Second))
	out := must.Get(f.Webhooks.BeginAttempt(t.Context(), refs[1], webhook.Turn{RunID: "run-b", Try: 1}))(t)
	require.Equal(t, webhook.StepBusy, out.Step)
	require.InDelta(t, 20, out.Wait.Seconds(), 5)
	_, free := f.publishTest(t, f.endpoint(t, "https://shop.example/limited", webhook.PayoutSent), webhook.PayoutSent)
	require.Equal(t, webhook.StepBegin, f.begin(t, free, "run-c", 1).Step, "another registration of the same address")
}
