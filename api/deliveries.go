package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"example.com/checkout/storage"
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
	return answerList(q, checkout.PrefixDelivery, func(d webhook.Delivery) string { return d.ID }, func(p storage.Page) ([]webhook.Delivery, error) {
		return s.Store.Deliveries(ctx, caller.Merchant.ID, caller.Key.Mode, filter, p)
	})
}

// getDelivery serves GET /v1/deliveries/{id}, with attempts.
func (s *Server) getDelivery(r *http.Request) (int, any, error) {
	ref, err := deliveryRef(r)
	if err != nil {
		return 0, nil, err
	}
	d, err := s.Store.Delivery(r.Context(), ref)
	return http.StatusOK, d, err
}

// deliveryRef returns the delivery that the path names, as the caller's.
func deliveryRef(r *http.Request) (storage.DeliveryRef, error) {
	caller := callerFrom(r.Context())
	id, err := pathID(r, checkout.PrefixDelivery)
	return storage.DeliveryRef{ID: id, MerchantID: caller.Merchant.ID, Mode: caller.Key.Mode}, err
}

// replayDelivery serves POST /v1/deliveries/{id}/replay: a new run of a delivery
// that has ended, whose first attempt makes it pending again.
func (s *Server) replayDelivery(r *http.Request) (int, any, error) {
	d, err := s.toSteer(r)
	switch {
	case err != nil:
		return 0, nil, err
	case d.Status == webhook.DeliveryPending:
		return 0, nil, webhook.ErrDeliveryInProgress
	case d.EndpointDeleted:
		return 0, nil, webhook.ErrEndpointDeleted
	}
	if err := s.Workflows.ReplayDelivery(r.Context(), d); err != nil {
		return 0, nil, err
	}
	before, ref := d.Run, storage.DeliveryRef{ID: d.ID, MerchantID: d.MerchantID, Mode: d.Mode}
	err = settled(r.Context(), func() (bool, error) {
		d, err = s.Store.Delivery(r.Context(), ref)
		return d.Run > before, err
	})
	return http.StatusAccepted, d, err
}

// toSteer reads the delivery that the path names, for a request without a body.
func (s *Server) toSteer(r *http.Request) (webhook.Delivery, error) {
	ref, err := deliveryRef(r)
	if err != nil {
		return webhook.Delivery{}, err
	}
	d, err := s.Store.Delivery(r.Context(), ref)
	if err != nil {
		return webhook.Delivery{}, err
	}
	return d, readNothing(r)
}

// retryDelivery serves POST /v1/deliveries/{id}/retry_now: the next attempt of a
// pending delivery at once. One whose run is gone is started by Reconcile.
func (s *Server) retryDelivery(r *http.Request) (int, any, error) {
	d, err := s.steer(r, s.Store.HurryDelivery)
	if err != nil {
		return 0, nil, err
	}
	if err := s.Workflows.RetryNow(r.Context(), d.ID); err != nil && !errors.Is(err, checkout.ErrNotFound) {
		return 0, nil, err
	}
	return http.StatusAccepted, d, nil
}

// holdDelivery serves POST /v1/deliveries/{id}/hold.
func (s *Server) holdDelivery(r *http.Request) (int, any, error) {
	d, err := s.steer(r, s.Store.HoldDelivery)
	return http.StatusOK, d, err
}

// resumeDelivery serves POST /v1/deliveries/{id}/resume. A run that waits is
// woken; one that cannot be reached now is woken by Reconcile.
func (s *Server) resumeDelivery(r *http.Request) (int, any, error) {
	d, err := s.steer(r, s.Store.ResumeDelivery)
	if err != nil {
		return 0, nil, err
	}
	if !d.Held { // else its registration holds it still
		if err := s.Workflows.ResumeDelivery(r.Context(), d.ID); !errors.Is(err, checkout.ErrNotFound) {
			s.leftToReconcile(r.Context(), err)
		}
	}
	return http.StatusOK, d, nil
}

// steer does something with the delivery that the path names and returns what
// it is then.
func (s *Server) steer(r *http.Request, do func(context.Context, storage.DeliveryRef) error) (webhook.Delivery, error) {
	d, err := s.toSteer(r)
	if err != nil {
		return d, err
	}
	ref := storage.DeliveryRef{ID: d.ID, MerchantID: d.MerchantID, Mode: d.Mode}
	if err := do(r.Context(), ref); err != nil {
		return d, err
	}
	return s.Store.Delivery(r.Context(), ref)
}

// settleTimeout is how long an answer waits for a workflow to write its row.
const settleTimeout = 2 * time.Second

// settled asks until done says so, or for settleTimeout: an answer that shows
// what was asked for is worth a moment.
func settled(ctx context.Context, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	for wait := 20 * time.Millisecond; ; wait = min(2*wait, 200*time.Millisecond) {
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}
