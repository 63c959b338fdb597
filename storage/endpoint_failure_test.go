package storage_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"example.com/checkout/storage"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/webhook"
)

var failureRules = storage.FailureRules{FailingAfter: time.Hour, HeldAfter: 72 * time.Hour}

// judge does what Reconcile does.
func (f fixture) judge(t *testing.T, e webhook.Endpoint) webhook.Endpoint {
	for _, ref := range must.Get(f.Webhooks.FailingEndpoints(t.Context(), failureRules, 10))(t) {
		require.NoError(t, f.Webhooks.JudgeEndpoint(t.Context(), ref, failureRules))
	}
	e = must.Get(f.Webhooks.Endpoint(t.Context(), e.Ref))(t)
	return e
}

// try makes one attempt of a delivery; "" arrives.
func (f fixture) try(t *testing.T, ref checkout.Ref, number int, kind webhook.ErrorKind) {
	f.begin(t, ref, "run-"+ref.ID, number)
	require.NoError(t, f.Webhooks.FinishAttempt(t.Context(), ref, webhook.Attempt{Run: 1, Number: number, ErrorKind: kind}, time.Hour))
}

// event sends a test event to e and makes its first attempt.
func (f fixture) event(t *testing.T, e webhook.Endpoint, kind webhook.ErrorKind) checkout.Ref {
	_, ref := f.publishTest(t, e, webhook.PayoutSent)
	f.try(t, ref, 1, kind)
	return ref
}

// failsLater lets time pass since what was noted about e.
func (f fixture) failsLater(t *testing.T, e webhook.Endpoint, hours int) {
	f.Exec(t, fmt.Sprintf(`UPDATE webhook_endpoint_failure SET since = since - interval '%[1]d hours',
		last_at = last_at - interval '%[1]d hours', arrived_at = arrived_at - interval '%[1]d hours'
		WHERE endpoint_id = $1`, hours), e.ID)
}

func (f fixture) mails(t *testing.T, kind merchant.MailKind) any {
	return f.query(t, `SELECT coalesce(string_agg(member_id, ' ' ORDER BY id), '') FROM mail WHERE kind = $1`, kind)
}

func newFailing(t *testing.T) (fixture, webhook.Endpoint) {
	f := newFixture(t)
	for id, role := range map[string]merchant.Role{"usr_dev": "developer", "usr_viewer": "viewer"} {
		f.Exec(t, `INSERT INTO member (id, merchant_id, email, role, password_hash) VALUES ($1, $2, $1, $3, 'x')`, id, f.merchant.ID, role)
	}
	return f, f.endpoint(t, "https://orders.example/a", webhook.EventTypes...)
}

func TestJudgeEndpoint_AnHourOfFailedFirstAttemptsIsMarkedOnce(t *testing.T) {
	f, e := newFailing(t)
	f.event(t, e, "")
	require.EqualValues(t, 0, f.query(t, `SELECT count(*) FROM webhook_endpoint_failure`), "a healthy registration costs no row")
	f.event(t, e, webhook.ErrorInternal)
	require.EqualValues(t, 0, f.query(t, `SELECT count(*) FROM webhook_endpoint_failure`), "our fault")

	first := f.event(t, e, webhook.ErrorHTTP)
	f.failsLater(t, e, 1)
	require.Nil(t, f.judge(t, e).FailingSince, "nothing was sent since")
	f.try(t, first, 2, "") // a retry that arrives is no first attempt
	f.event(t, e, webhook.ErrorTimeout)
	var group errgroup.Group
	for range 4 { // workers at the same time
		group.Go(func() error { return f.Webhooks.JudgeEndpoint(t.Context(), e.Ref, failureRules) })
	}
	require.NoError(t, group.Wait())
	got := f.judge(t, e)
	require.NotNil(t, got.FailingSince)
	require.Equal(t, webhook.EndpointEnabled, got.Status)
	require.Equal(t, "usr_dev", f.mails(t, merchant.MailEndpointFailing))
	require.Equal(t, "test/webhooks/"+e.ID, f.query(t, `SELECT page FROM mail WHERE kind = $1`, merchant.MailEndpointFailing))
	sum := must.Get(f.Sessions.Summary(t.Context(), e.Owner, storage.SpanHours, time.Now().Add(48*time.Hour)))(t)
	require.Len(t, sum.Failing, 1, "none of its deliveries is of the last day")
	require.Empty(t, must.Get(f.Sessions.Summary(t.Context(), f.merchant.Owner(checkout.ModeLive), storage.SpanHours, time.Now()))(t).Failing)

	f.event(t, e, "")
	require.Nil(t, f.judge(t, e).FailingSince, "a first attempt arrived")
	f.event(t, e, webhook.ErrorHTTP)
	f.failsLater(t, e, 2)
	f.event(t, e, webhook.ErrorHTTP)
	require.NotNil(t, f.judge(t, e).FailingSince)
	require.Equal(t, "usr_dev usr_dev", f.mails(t, merchant.MailEndpointFailing), "another time, another mail")
}

func TestJudgeEndpoint_AfterThreeDaysItsEventsWait(t *testing.T) {
	f, e := newFailing(t)
	first := f.event(t, e, webhook.ErrorHTTP)
	f.failsLater(t, e, 71)
	f.event(t, e, webhook.ErrorHTTP)
	require.Equal(t, webhook.EndpointEnabled, f.judge(t, e).Status)
	f.failsLater(t, e, 1)
	f.event(t, e, webhook.ErrorHTTP)
	held := f.judge(t, e)
	require.Equal(t, webhook.EndpointDisabled, held.Status)
	require.Equal(t, "usr_dev", f.mails(t, merchant.MailEndpointHeld))
	require.Equal(t, "the service webhook.held", f.query(t, `SELECT actor || ' ' || action FROM audit_entry WHERE subject = $1`, e.ID))
	require.Equal(t, e.ID, must.Get(f.Webhooks.SigningEndpoint(t.Context(), e.Owner, "https://shop.example/own"))(t), "it goes on signing for a session's own address")

	_, waits := f.publishTest(t, e, webhook.PayoutSent)
	require.Equal(t, webhook.StepPark, f.begin(t, waits, "run", 1).Step)
	require.NoError(t, f.Webhooks.FinishAttempt(t.Context(), first, webhook.Attempt{Run: 1, Number: 1}, 0)) // was under way
	require.NotNil(t, f.judge(t, e).FailingSince, "what was under way at the hold does not end it")

	require.Nil(t, f.setStatus(t, e, webhook.EndpointEnabled).FailingSince)
	require.Equal(t, []checkout.Ref{waits}, must.Get(f.Webhooks.ParkedDeliveries(t.Context(), "", 10))(t))
	f.event(t, e, webhook.ErrorHTTP)
	require.Equal(t, webhook.EndpointEnabled, f.judge(t, e).Status, "it has three days again")
}

func TestJudgeEndpoint_HoldsNothingThatArrivesAtLast(t *testing.T) {
	f, e := newFailing(t)
	late := f.event(t, e, webhook.ErrorTimeout)
	f.failsLater(t, e, 72)
	f.try(t, late, 2, "")
	f.event(t, e, webhook.ErrorTimeout)
	got := f.judge(t, e)
	require.NotNil(t, got.FailingSince)
	require.Equal(t, webhook.EndpointEnabled, got.Status, "its retries arrive")

	f.failsLater(t, e, 72)
	f.event(t, e, webhook.ErrorTimeout)
	due := must.Get(f.Webhooks.FailingEndpoints(t.Context(), failureRules, 10))(t)
	require.Len(t, due, 1)
	f.event(t, e, "") // between the list and the decision
	require.NoError(t, f.Webhooks.JudgeEndpoint(t.Context(), due[0], failureRules))
	require.Equal(t, webhook.EndpointEnabled, f.judge(t, e).Status)
	require.Empty(t, f.mails(t, merchant.MailEndpointHeld))
}

func TestJudgeEndpoint_KnowsOnlyTheRegistrationsOwnAddress(t *testing.T) {
	f, e := newFailing(t)
	own := f.sessionURLDelivery(t, e)
	f.try(t, own, 1, webhook.ErrorHTTP)
	require.EqualValues(t, 0, f.query(t, `SELECT count(*) FROM webhook_endpoint_failure`))
	f.event(t, e, webhook.ErrorHTTP)
	f.failsLater(t, e, 80)
	f.event(t, e, webhook.ErrorHTTP)
	url := "https://ORDERS.example:443/a?"
	must.Get(f.Webhooks.ChangeEndpoint(t.Context(), e.Ref, storage.EndpointChange{URL: &url}))(t)
	require.NotNil(t, f.judge(t, e).FailingSince, "another spelling of the same address")
	url = "https://orders.example/b"
	must.Get(f.Webhooks.ChangeEndpoint(t.Context(), e.Ref, storage.EndpointChange{URL: &url}))(t)
	require.Nil(t, f.judge(t, e).FailingSince, "another server")
}
