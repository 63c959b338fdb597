package stripe_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/stripe/stripe-go/v85/webhook"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/testsuite"

	"example.com/checkout/activities/stripe"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/books"
	"example.com/checkout/workflows/checkout"
)

const (
	webhookSecret = "whsec_one"
	succeeded     = `{"id": "evt_1", "object": "event", "type": "payment_intent.succeeded", "api_version": "2011-01-01",
		"created": 1767225600, "livemode": true, "data": {"object": {"object": "payment_intent", "id": "pi_1"}}}`
)

// sign returns the header of a body that was signed so long ago.
func sign(body, secret string, ago time.Duration) string {
	at := time.Now().Add(-ago)
	return fmt.Sprintf("t=%d,v1=%x", at.Unix(), webhook.ComputeSignature(at, []byte(body), secret))
}

func TestVerifyEvent(t *testing.T) {
	t.Parallel()
	large := succeeded + string(bytes.Repeat([]byte(" "), 1<<20))
	limit := succeeded + string(bytes.Repeat([]byte(" "), stripe.MaxEvent-len(succeeded)))
	good := sign(succeeded, webhookSecret, 0)
	for _, c := range []struct {
		name, body, header string
		secrets            []string
		want               error
	}{
		{"good", succeeded, good, []string{webhookSecret}, nil},
		{"during a rotation, the new secret", succeeded, good, []string{"whsec_old", webhookSecret}, nil},
		{"during a rotation, the old secret", succeeded, good, []string{webhookSecret, "whsec_new"}, nil},
		{"signed with both secrets", succeeded, good + ",v1=" + sign(succeeded, "whsec_new", 0)[len("t=1767225600,v1="):], []string{webhookSecret}, nil},
		{"doubled", succeeded, good + "," + good, []string{webhookSecret}, nil},
		{"four minutes old", succeeded, sign(succeeded, webhookSecret, 4*time.Minute), []string{webhookSecret}, nil},
		{"six minutes old", succeeded, sign(succeeded, webhookSecret, 6*time.Minute), []string{webhookSecret}, stripe.ErrEventSignature},
		{"four minutes ahead", succeeded, sign(succeeded, webhookSecret, -4*time.Minute), []string{webhookSecret}, nil},
		{"six minutes ahead", succeeded, sign(succeeded, webhookSecret, -6*time.Minute), []string{webhookSecret}, stripe.ErrEventSignature},
		{"another secret", succeeded, good, []string{"whsec_two"}, stripe.ErrEventSignature},
		{"no secret", succeeded, good, nil, stripe.ErrEventSignature},
		{"an empty secret", succeeded, sign(succeeded, "", 0), []string{""}, stripe.ErrEventSignature},
		{"no header", succeeded, "", []string{webhookSecret}, stripe.ErrEventSignature},
		{"a header of nonsense", succeeded, "t=,v1=", []string{webhookSecret}, stripe.ErrEventSignature},
		{"another body", succeeded + " ", good, []string{webhookSecret}, stripe.ErrEventSignature},
		{"as large as allowed", limit, sign(limit, webhookSecret, 0), []string{webhookSecret}, nil},
		{"1 MB", large, sign(large, webhookSecret, 0), []string{webhookSecret}, stripe.ErrEventTooLarge},
	} {
		got, err := stripe.VerifyEvent([]byte(c.body), c.header, checkout.ModeLive, c.secrets)
		if c.want != nil {
			require.ErrorIs(t, err, c.want, c.name)
			require.Zero(t, got, c.name)
			continue
		}
		require.NoError(t, err, c.name)
		require.Equal(t, books.AcquirerEvent{
			ID: "evt_1", Mode: checkout.ModeLive, Type: "payment_intent.succeeded", ObjectID: "pi_1", Reference: "pi_1",
			CreatedAt: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		}, got, c.name)
	}
}

// After an error Stripe would send the event again for days.
func TestVerifyEvent_SaysWhatItCannotRead(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		`x`, `{}`, `{"id": "evt_1", "type": "x", "data": {}}`, `{"id": "evt_1", "type": "x"}`,
		strings.Replace(succeeded, "evt_1", `evt_\u0000`, 1), strings.Replace(succeeded, "pi_1", `pi_\u0000`, 1),
		strings.Replace(succeeded, "intent.", `intent.\u0000`, 1), strings.Replace(succeeded, "evt_1", strings.Repeat("e", 4000), 1),
	} {
		got, err := stripe.VerifyEvent([]byte(body), sign(body, webhookSecret, 0), checkout.ModeLive, []string{webhookSecret})
		require.NoError(t, err, body)
		require.True(t, got.Unread, body)
		require.Equal(t, checkout.ModeLive, got.Mode, "whatever the event says")
		require.Empty(t, got.ObjectID+got.Reference+got.Type, body)
	}
	for _, created := range []string{"-4611686018427387904", "-1", "0", "1099511627776", "4611686018427387904"} {
		body := strings.Replace(succeeded, "1767225600", created, 1)
		got, err := stripe.VerifyEvent([]byte(body), sign(body, webhookSecret, 0), checkout.ModeLive, []string{webhookSecret})
		require.NoError(t, err, created)
		require.False(t, got.Unread, "the time decides nothing")
		require.WithinDuration(t, time.Now(), got.CreatedAt, time.Minute, created)
	}
}

func TestVerifyEvent_TellsTheIntentOfAnotherObject(t *testing.T) {
	t.Parallel()
	const body = `{"id": "evt_2", "type": "charge.dispute.created", "livemode": false, "created": 0,
		"data": {"object": {"object": "dispute", "id": "du_1", "payment_intent": "pi_1"}}}`
	got := must.Get(stripe.VerifyEvent([]byte(body), sign(body, webhookSecret, 0), checkout.ModeTest, []string{webhookSecret}))(t)
	require.Equal(t, checkout.ModeTest, got.Mode)
	require.Equal(t, "du_1", got.ObjectID)
	require.Equal(t, "pi_1", got.Reference)
	require.True(t, got.Risk, "the charge must be looked at")
}

func TestEvents_OfTheOtherModeAreRefused(t *testing.T) {
	t.Parallel()
	for _, mode := range []checkout.Mode{checkout.ModeTest, checkout.ModeLive} {
		for _, livemode := range []bool{false, true} {
			body := strings.Replace(succeeded, `"livemode": true`, fmt.Sprintf(`"livemode": %v`, livemode), 1)
			got, err := stripe.VerifyEvent([]byte(body), sign(body, webhookSecret, 0), mode, []string{webhookSecret})
			if livemode != mode.Live() {
				require.ErrorContains(t, err, "belongs to the other mode", "%s %v", mode, livemode)
				require.Zero(t, got)
				continue
			}
			require.NoError(t, err)
			require.Equal(t, mode, got.Mode)
		}
	}

	w := newDouble(t)
	w.prepare("visa")
	live := must.Get(stripe.New(stripe.Options{SecretKey: testKey, Mode: checkout.ModeLive, APIURL: w.apiURL, Simulated: true}))(t)
	_, _, err := live.Events(t.Context(), "", time.Now().Add(-time.Minute))
	require.ErrorContains(t, err, "the report was sent to live mode but belongs to the other mode")
}

func TestEvents_GoOnFromACursorOldestFirst(t *testing.T) {
	t.Parallel()
	w := newDouble(t)
	since := time.Now().Add(-time.Minute)
	events := func(cursor string, wantMore bool) []books.AcquirerEvent {
		got, more, err := w.network.Events(t.Context(), cursor, since)
		require.NoError(t, err)
		require.Equal(t, wantMore, more)
		return got
	}
	require.Empty(t, events("", false))

	req, reference := w.prepare("visa")
	w.confirm(reference, 1, req)
	all := events("", false)
	require.Equal(t, []string{"payment_intent.created", "charge.succeeded", "payment_intent.succeeded"}, types(all))
	require.Equal(t, reference, all[1].Reference)
	require.Equal(t, all[1:], events(all[0].ID, false))
	require.Empty(t, events(all[2].ID, false))

	for range 110 { // more than one page
		w.cancel(w.mustPrepare(req), checkout.FailureProcessingError)
	}
	page := events(all[2].ID, true)
	require.Len(t, page, 100)
	require.Equal(t, "payment_intent.created", page[0].Type)
	require.Len(t, events(page[99].ID, true), 100)
	require.Equal(t, append(all, page[:97]...), events("", true))
}

// A busy account lists more pages without a cursor than fit into one heartbeat timeout.
func TestEvents_OfALongTimeKeepTheActivityAlive(t *testing.T) {
	t.Parallel()
	w := newDouble(t)
	w.prepare("visa")
	env := (&testsuite.WorkflowTestSuite{}).NewTestActivityEnvironment()
	beats := atomic.Int64{}
	env.SetOnActivityHeartbeatListener(func(*activity.Info, converter.EncodedValues) { beats.Add(1) })
	read := func(ctx context.Context) (int, error) {
		got, _, err := w.network.Events(ctx, "", time.Now().Add(-25*time.Hour))
		return len(got), err
	}
	env.RegisterActivity(read)
	value := must.Get(env.ExecuteActivity(read))(t)
	var events int
	require.NoError(t, value.Get(&events))
	require.Equal(t, 1, events, "also behind hours without one")
	require.Positive(t, beats.Load())
}

func types(events []books.AcquirerEvent) []string {
	var got []string
	for _, e := range events {
		got = append(got, e.Type)
	}
	return got
}

// mustPrepare prepares another transaction with the facts of req.
func (w *world) mustPrepare(req checkout.ChargeRequest) string {
	req.TransactionID = checkout.NewID(checkout.PrefixTransaction)
	return must.Get(w.network.Prepare(w.Context(), req))(w)
}
