package api

import (
	"net/http"

	"example.com/checkout/api/action"
	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// listDeliveries serves GET /v1/deliveries, newest first, without attempts.
func (s *Server) listDeliveries(r *http.Request) (int, any, error) {
	q := readQuery(r, "status", "webhook", "event", "session")
	filter := storage.DeliveryFilter{
		Status:     optionalChoice(q, "status", webhook.DeliveryStatuses),
		EndpointID: optionalID(q, "webhook", checkout.PrefixEndpoint),
		EventID:    optionalID(q, "event", checkout.PrefixEvent),
		SessionID:  optionalID(q, "session", checkout.PrefixSession),
	}
	return listOf(r, q, checkout.PrefixDelivery, filter, s.Store.Webhooks.Deliveries)
}

// steerDelivery serves POST of an action on the delivery in the path. It answers with the changed delivery.
func steerDelivery(status int, do action.Steering) func(*http.Request, webhook.Delivery) (int, any, error) {
	return func(r *http.Request, d webhook.Delivery) (int, any, error) {
		d, err := do(r.Context(), d, actor(r))
		return status, d, err
	}
}
