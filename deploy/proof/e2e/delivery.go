package e2e

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/standin/devstack"
	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/webhook"
)

// DeliveryOf returns the id of the delivery of a session's event. It waits for it: a slow decision comes after the
// answer to the customer.
func DeliveryOf(t *testing.T, stack *devstack.Stack, sessionID, eventType string) string {
	var id string
	Await(t, "the delivery of "+eventType, 20*time.Second, func() bool {
		id = Query[string](t, stack, `
			SELECT coalesce(max(d.id), '') FROM webhook_delivery d JOIN event e ON e.id = d.event_id
			WHERE e.session_id = $1 AND e.type = $2`, sessionID, eventType)
		return id != ""
	})
	return id
}

// DeliveryStatus reads the status of a delivery of Shared.
func DeliveryStatus(t *testing.T, id string) string {
	return Query[string](t, Shared, `SELECT status FROM webhook_delivery WHERE id = $1`, id)
}

// TestEvent makes an event for one endpoint, without a session that caused it.
func (m *Merchant) TestEvent(endpoint string) storage.TestEvent {
	return storage.TestEvent{
		Owner: checkout.Owner{MerchantID: m.ID, Mode: checkout.ModeTest}, EndpointID: endpoint, SubjectID: checkout.NewID("test"), Type: webhook.MerchantUpdated,
		Data: func(time.Time) any {
			return merchant.Update{
				Merchant: merchant.Merchant{ID: m.ID, Name: "Shop", Plan: "standard", PaymentAttempts: merchant.DefaultPaymentAttempts}, Mode: checkout.ModeTest,
				Addresses: []merchant.PayoutAddress{}, Changed: []string{"name"}, Previous: map[string]any{"name": "Old name"},
			}
		},
	}
}

// Registration returns the id of the merchant's registration.
func (m *Merchant) Registration() string {
	list := m.Must(http.StatusOK, http.MethodGet, "/v1/webhooks", "")
	return list.Field("data").([]any)[0].(map[string]any)["id"].(string)
}

// RefusedDelivery makes a delivery whose first attempt was refused.
func (m *Merchant) RefusedDelivery() (delivery string) {
	before, _ := m.Receiver.Arrivals()
	m.Receiver.Answer(http.StatusInternalServerError)
	session := m.Create(Terms)
	m.MustPay(session, CardDeclined)
	m.Arrivals(len(before)+1, 10*time.Second)
	return DeliveryOf(m.T, m.Stack, session, "checkout.failed")
}

// AwaitDelivery waits until the log shows the delivery with that status.
func (m *Merchant) AwaitDelivery(id, field string, want any, within time.Duration) Answer {
	var got Answer
	looked := time.Now()
	Await(m.T, id+": "+field, within, func() bool {
		if time.Since(looked) > overdue {
			m.hastenLost()
			looked = time.Now()
		}
		got = m.Must(http.StatusOK, http.MethodGet, "/v1/deliveries/"+id, "")
		return got.Field(field) == want
	})
	return got
}

// FailedDeliveries makes n permanently failed deliveries whose runs Temporal no longer has.
func (m *Merchant) FailedDeliveries(n int) (endpoint string) {
	endpoint = Query[string](m.T, m.Stack, `SELECT id FROM webhook_endpoint WHERE merchant_id = $1`, m.ID)
	events, deliveries := make([]string, n), make([]string, n)
	for i := range n {
		events[i], deliveries[i] = checkout.NewID(checkout.PrefixEvent), checkout.NewID(checkout.PrefixDelivery)
	}
	require.Equal(m.T, n, Query[int](m.T, m.Stack, `
		WITH ids AS (SELECT event, delivery FROM unnest($1::text[], $2::text[]) AS i (event, delivery)),
		event AS (
			INSERT INTO event (id, merchant_id, mode, type, subject_id, created_at, body)
			SELECT event, $3, 'test', 'payout.sent', 'test_' || event, now(), convert_to('{"id":"' || event || '","type":"payout.sent","data":{}}', 'UTF8') FROM ids
		), delivery AS (
			INSERT INTO webhook_delivery (id, event_id, merchant_id, mode, endpoint_id, url, status, run, run_id, created_at, finished_at)
			SELECT delivery, event, $3, 'test', $4, $5, 'failed', 1, 'dropped', now(), now() FROM ids RETURNING id
		), attempt AS (
			INSERT INTO webhook_attempt (delivery_id, run, number, started_at, duration_ms, status_code, error_kind)
			SELECT id, 1, number, now(), 5, 500, 'http' FROM delivery, generate_series(1, 6) AS number
		) SELECT count(*) FROM delivery`, events, deliveries, m.ID, endpoint, m.URL))
	return endpoint
}
