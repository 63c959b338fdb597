package storage_test

import (
	"fmt"
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

// first returns what becomes of the first attempt of a delivery after a while: its step, and how long it must wait.
func (f fixture) first(t *testing.T, ref checkout.Ref, after time.Duration) string {
	return f.firstAt(t, ref, time.Now().Add(after))
}

func (f fixture) firstAt(t *testing.T, ref checkout.Ref, now time.Time) string {
	turn := webhook.Turn{RunID: "run-" + ref.ID, Try: 1, Now: now}
	out := must.Get(f.Webhooks.BeginAttempt(t.Context(), ref, turn))(t)
	return fmt.Sprint(out.Step, " ", out.Wait.Round(100*time.Millisecond))
}

// ofAnother is a delivery as another merchant would name it.
func ofAnother(ref checkout.Ref) checkout.Ref {
	return checkout.Owner{MerchantID: checkout.NewID(checkout.PrefixMerchant), Mode: ref.Mode}.Ref(ref.ID)
}

func TestLeavePlace_GivesThePlaceToTheNext(t *testing.T) {
	f := newFixture(t)
	_, refs := f.limited(t, 2, 1, 0)
	require.Equal(t, "begin 0s", f.first(t, refs[0], 0))
	require.Equal(t, "busy 1s", f.first(t, refs[1], 0))
	require.Zero(t, f.read(t, refs[1]).Run, "nothing is noted")
	require.NoError(t, f.Webhooks.LeavePlace(t.Context(), ofAnother(refs[0])))
	require.Equal(t, "busy 1s", f.first(t, refs[1], 0), "another merchant gives nothing back")
	require.Equal(t, "busy 1s", f.first(t, refs[1], 14*time.Second))
	require.NoError(t, f.Webhooks.LeavePlace(t.Context(), refs[0]))
	require.Equal(t, "begin 0s", f.first(t, refs[1], 0))
}

func TestBeginAttempt_TakesThePlaceOfAWorkerThatDied(t *testing.T) {
	f := newFixture(t)
	_, refs := f.limited(t, 2, 1, 0)
	f.begin(t, refs[0], "run-a", 1)
	require.Equal(t, "busy 1s", f.first(t, refs[1], 14*time.Second))
	require.Equal(t, "begin 0s", f.first(t, refs[1], 16*time.Second))
}

func TestBeginAttempt_KeepsTheRateLimitAmongAllWorkers(t *testing.T) {
	f := newFixture(t)
	_, refs := f.limited(t, 2, 0, 1)
	now := time.Now().Add(time.Hour)
	require.Equal(t, "begin 0s", f.firstAt(t, refs[0], now))
	require.Equal(t, "busy 700ms", f.firstAt(t, refs[1], now.Add(300*time.Millisecond)))
	require.Equal(t, "begin 0s", f.firstAt(t, refs[1], now.Add(time.Second)))
}

func TestPauseEndpoint_HoldsBackItsAttemptsAndNoOthers(t *testing.T) {
	f := newFixture(t)
	_, refs := f.limited(t, 2, 0, 0)
	f.begin(t, refs[0], "run-a", 1)
	require.NoError(t, f.Webhooks.PauseEndpoint(t.Context(), ofAnother(refs[0]), time.Hour))
	require.NoError(t, f.Webhooks.PauseEndpoint(t.Context(), refs[0], 20*time.Second))
	require.Regexp(t, `^busy (1[5-9](\.\d)?|20)s$`, f.first(t, refs[1], 0))
	_, free := f.publishTest(t, f.endpoint(t, "https://shop.example/limited", webhook.PayoutSent), webhook.PayoutSent)
	require.Equal(t, webhook.StepBegin, f.begin(t, free, "run-c", 1).Step, "another registration of the same address")
}
