package e2e

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/devstack"
	"example.com/checkout/workflows/webhook"
)

// TestHold_UsesUpNoAttempt: a hold outlasts the time of the next attempt, which
// then follows the resume at once.
func TestHold_UsesUpNoAttempt(t *testing.T) {
	t.Parallel()
	m := newMerchant(t, shared)
	delivery := m.refusedDelivery()
	held := m.must(http.StatusOK, http.MethodPost, "/v1/deliveries/"+delivery+"/hold", "")
	require.Equal(t, true, held.field("held"))
	require.Equal(t, "pending", held.field("status"))
	refused := m.must(http.StatusConflict, http.MethodPost, "/v1/deliveries/"+delivery+"/retry_now", "")
	require.Equal(t, "delivery_held", refused.field("error"))
	got, _ := m.receiver.Arrivals()
	time.Sleep(4 * time.Second) // two attempts would have been due
	still, _ := m.receiver.Arrivals()
	require.LessOrEqual(t, len(still), len(got)+1, "at most one was under way")
	m.receiver.Answer(http.StatusOK)
	m.must(http.StatusOK, http.MethodPost, "/v1/deliveries/"+delivery+"/resume", "")
	end := m.awaitDelivery(delivery, "status", "delivered", 5*time.Second)
	attempts := end.field("attempts").([]any)
	require.Len(t, attempts, len(still)+1)
	last := attempts[len(still)].(map[string]any)
	require.EqualValues(t, len(still)+1, last["number"])
	require.EqualValues(t, 200, last["status_code"])
}

// TestRetryNow_MakesTheNextAttemptAtOnce five times in a row: a merchant's own
// tests see all retries in seconds.
func TestRetryNow_MakesTheNextAttemptAtOnce(t *testing.T) {
	t.Parallel()
	m := newMerchant(t, ownStack(t, devstack.Options{}))
	delivery := m.refusedDelivery()
	for n := 2; n <= 6; n++ {
		await(t, "the next attempt waits", 10*time.Second, func() bool {
			return m.must(http.StatusOK, http.MethodGet, "/v1/deliveries/"+delivery, "").field("next_attempt_at") != nil
		})
		m.must(http.StatusAccepted, http.MethodPost, "/v1/deliveries/"+delivery+"/retry_now", "")
		m.arrivals(n, 10*time.Second)
	}
	m.awaitDelivery(delivery, "status", "failed", 10*time.Second)
	refused := m.must(http.StatusConflict, http.MethodPost, "/v1/deliveries/"+delivery+"/retry_now", "")
	require.Equal(t, "delivery_not_pending", refused.field("error"))

	// Replay by the API: six new attempts, the same event.
	m.receiver.Answer(http.StatusOK)
	m.must(http.StatusAccepted, http.MethodPost, "/v1/deliveries/"+delivery+"/replay", "")
	end := m.awaitDelivery(delivery, "status", "delivered", 10*time.Second)
	require.EqualValues(t, 2, end.field("run"))
	require.Len(t, end.field("attempts"), 7)
	arrivals := m.arrivals(7, time.Second)
	require.Equal(t, arrivals[0].Body, arrivals[6].Body)
	require.Equal(t, "1", arrivals[6].Attempt)
}

// TestDisable_HoldsEverythingAndEnableSendsIt: also what happened meanwhile.
func TestDisable_HoldsEverythingAndEnableSendsIt(t *testing.T) {
	t.Parallel()
	m := newMerchant(t, shared)
	endpoint := m.registration()
	m.must(http.StatusOK, http.MethodPatch, "/v1/webhooks/"+endpoint, `{"status": "disabled"}`)
	paid := m.create(terms)
	m.mustPay(paid, cardSucceeds)
	m.awaitStatus(paid, "completed", 10*time.Second)
	await(t, "both deliveries are parked", 20*time.Second, func() bool {
		return query[int](t, shared, `SELECT count(*) FROM webhook_delivery WHERE endpoint_id = $1 AND parked_at IS NOT NULL`, endpoint) == 2
	})
	list := m.must(http.StatusOK, http.MethodGet, "/v1/deliveries?session="+paid, "").field("data").([]any)
	require.Len(t, list, 2)
	require.Equal(t, true, list[0].(map[string]any)["held"])
	got, _ := m.receiver.Arrivals()
	require.Empty(t, got)

	m.must(http.StatusOK, http.MethodPost, "/v1/webhooks/"+endpoint+"/resume", "")
	for _, a := range m.arrivals(2, 15*time.Second) {
		require.NoError(t, a.Signature)
		require.Equal(t, "1", a.Attempt, "the hold used up no attempt")
	}
}

// TestRegistration_ItsLife: a corrected address, a rotated secret, a test event,
// and the end.
func TestRegistration_ItsLife(t *testing.T) {
	t.Parallel()
	m, other := newMerchant(t, shared), newMerchant(t, shared)
	endpoint := m.registration()

	// The deliveries under way follow a corrected address.
	delivery := m.refusedDelivery()
	m.must(http.StatusOK, http.MethodPatch, "/v1/webhooks/"+endpoint, `{"url": "`+other.url+`", "description": "corrected"}`)
	excuse(t, 11, delivery, "the other server knows another secret")
	m.awaitDelivery(delivery, "status", "failed", 40*time.Second)
	require.NotEmpty(t, other.arrivals(1, time.Second))
	m.must(http.StatusOK, http.MethodPatch, "/v1/webhooks/"+endpoint, `{"url": "`+m.url+`"}`)
	m.receiver.Answer(http.StatusOK)

	// A test event carries the merchant's own metadata and never looks live.
	before, _ := m.receiver.Arrivals()
	sent := m.must(http.StatusAccepted, http.MethodPost, "/v1/webhooks/"+endpoint+"/test", `{"type": "checkout.completed", "metadata": {"order_id": "mine"}}`)
	require.NotEmpty(t, sent.field("delivery.id"))
	arrived := m.arrivals(len(before)+1, 10*time.Second)[len(before)]
	require.Contains(t, string(arrived.Body), `"metadata":{"order_id":"mine"}`)
	require.Contains(t, string(arrived.Body), `"livemode":false`)

	// While a rotation lasts, receivers with either secret accept.
	rotated := m.must(http.StatusOK, http.MethodPost, "/v1/webhooks/"+endpoint+"/rotate_secret", `{"overlap_hours": 1}`)
	secret := rotated.field("secret").(string)
	require.NotEqual(t, m.secret, secret)
	m.must(http.StatusAccepted, http.MethodPost, "/v1/webhooks/"+endpoint+"/test", `{}`)
	arrived = m.arrivals(len(before)+2, 10*time.Second)[len(before)+1]
	header := arrived.Header.Get(webhook.SignatureHeader)
	require.Equal(t, 2, strings.Count(header, "v1="))
	require.NoError(t, arrived.Signature, "the old secret")
	require.NoError(t, webhook.Verify(secret, header, arrived.Body, time.Now()), "the new one")
	explained := m.must(http.StatusOK, http.MethodPost, "/v1/webhooks/verify", quoted("header", header, "body", string(arrived.Body)))
	require.Equal(t, true, explained.field("valid"), string(explained.Body))
	explained = m.must(http.StatusOK, http.MethodPost, "/v1/webhooks/verify", quoted("header", header, "body", string(arrived.Body)+"\n"))
	require.Equal(t, "body_trailing_newline", explained.field("problem"))

	// Deleting cancels what is pending, at once and not only when it is due.
	pending := m.refusedDelivery()
	m.must(http.StatusOK, http.MethodDelete, "/v1/webhooks/"+endpoint, "")
	m.must(http.StatusNotFound, http.MethodGet, "/v1/webhooks/"+endpoint, "")
	m.awaitDelivery(pending, "status", "canceled", 15*time.Second)
	refused := m.must(http.StatusConflict, http.MethodPost, "/v1/deliveries/"+pending+"/replay", "")
	require.Equal(t, "webhook_deleted", refused.field("error"))
}

// quoted returns a JSON object of strings.
func quoted(pairs ...string) string {
	object := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		object[pairs[i]] = pairs[i+1]
	}
	text, _ := json.Marshal(object) // strings only
	return string(text)
}
