package api

import (
	"net/http"

	"example.com/checkout/api/action"
	"example.com/checkout/storage"
	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// listDeliveries serves GET /v1/deliveries, newest first, without attempts.
func (s *Server) listDeliveries(r *http.Request) (int, any, error) {
	ctx, caller := r.Context(), callerFrom(r.Context())
	q := readQuery(r, "status", "webhook", "event", "session")
	filter := storage.DeliveryFilter{
		Status:     optionalChoice(q, "status", webhook.DeliveryStatuses),
		EndpointID: optionalID(q, "webhook", checkout.PrefixEndpoint),
		EventID:    optionalID(q, "event", checkout.PrefixEvent),
		SessionID:  optionalID(q, "session", checkout.PrefixSession),
	}
	return answerList(q, checkout.PrefixDelivery, func(p pg.Page) ([]webhook.Delivery, error) {
		return s.Store.Deliveries(ctx, caller.Key.Owner, filter, p)
	})
}

// getDelivery serves GET /v1/deliveries/{id}, with attempts.
func (s *Server) getDelivery(r *http.Request) (int, any, error) {
	d, err := named(r, checkout.PrefixDelivery, s.Store.Delivery)
	return http.StatusOK, d, err
}

// replayDelivery serves POST /v1/deliveries/{id}/replay.
func (s *Server) replayDelivery(r *http.Request) (int, any, error) {
	return s.steer(r, http.StatusAccepted, s.webhooks().ReplayDelivery, "delivery.replay_requested")
}

// retryDelivery serves POST /v1/deliveries/{id}/retry_now.
func (s *Server) retryDelivery(r *http.Request) (int, any, error) {
	return s.steer(r, http.StatusAccepted, s.webhooks().RetryDelivery, "delivery.retried")
}

// holdDelivery serves POST /v1/deliveries/{id}/hold.
func (s *Server) holdDelivery(r *http.Request) (int, any, error) {
	return s.steer(r, http.StatusOK, s.webhooks().HoldDelivery, "delivery.held")
}

// resumeDelivery serves POST /v1/deliveries/{id}/resume.
func (s *Server) resumeDelivery(r *http.Request) (int, any, error) {
	return s.steer(r, http.StatusOK, s.webhooks().ResumeDelivery, "delivery.resumed")
}

// steer applies do to the delivery in the path and answers with the changed delivery. The request
// must have no body.
func (s *Server) steer(r *http.Request, status int, do action.Steering, what string) (int, any, error) {
	d, err := named(r, checkout.PrefixDelivery, s.Store.Delivery)
	if err != nil { // a 404 comes before faults of the body
		return 0, nil, err
	}
	if err := readNothing(r); err != nil {
		return 0, nil, err
	}
	d, err = do(r.Context(), d.Ref, audit(r, what, d.ID, action.DeliveryDetail(d)))
	return status, d, err
}
