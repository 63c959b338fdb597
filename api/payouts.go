package api

import (
	"errors"
	"net/http"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
)

// listPayouts serves GET /v1/payouts, newest first.
func (s *Server) listPayouts(r *http.Request) (int, any, error) {
	q := readQuery(r, "status", "session")
	filter := storage.PayoutFilter{
		Status:    optionalChoice(q, "status", checkout.PayoutStatuses),
		SessionID: optionalID(q, "session", checkout.PrefixSession),
	}
	return listOf(r, q, checkout.PrefixPayout, filter, s.Store.Payouts.Payouts)
}

// retryPayout serves POST /v1/payouts/{id}/retry.
func (s *Server) retryPayout(r *http.Request, p checkout.Payout) (int, any, error) {
	p, err := s.actions.RetryPayout(r.Context(), p, actor(r))
	if reverted, ok := errors.AsType[*checkout.AddressRevertedError](err); ok {
		return 0, nil, addressReverted(reverted)
	}
	return http.StatusAccepted, p, err
}
