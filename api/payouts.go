package api

import (
	"errors"
	"net/http"

	"example.com/checkout/storage"
	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
)

// listPayouts serves GET /v1/payouts, newest first.
func (s *Server) listPayouts(r *http.Request) (int, any, error) {
	ctx, caller := r.Context(), callerFrom(r.Context())
	q := readQuery(r, "status", "session")
	filter := storage.PayoutFilter{
		Status:    optionalChoice(q, "status", checkout.PayoutStatuses),
		SessionID: optionalID(q, "session", checkout.PrefixSession),
	}
	return answerList(q, checkout.PrefixPayout, func(p pg.Page) ([]checkout.Payout, error) {
		return s.Store.Payouts(ctx, caller.Key.Owner, filter, p)
	})
}

// getPayout serves GET /v1/payouts/{id}.
func (s *Server) getPayout(r *http.Request) (int, any, error) {
	p, err := s.payout(r)
	return http.StatusOK, p, err
}

// retryPayout serves POST /v1/payouts/{id}/retry.
func (s *Server) retryPayout(r *http.Request) (int, any, error) {
	p, err := alone(r, s.payout)
	if err != nil {
		return 0, nil, err
	}
	entry := audit(r, checkout.PayoutRetried, p.ID, p.RetryDetail())
	p, err = s.Workflows.RetryPayout(r.Context(), s.Store, p.Ref, entry, s.leftToReconcile)
	if reverted, ok := errors.AsType[*checkout.AddressRevertedError](err); ok {
		return 0, nil, addressReverted(reverted)
	}
	return http.StatusAccepted, p, err
}

// payout returns the payout in the path.
func (s *Server) payout(r *http.Request) (checkout.Payout, error) {
	return named(r, checkout.PrefixPayout, s.Store.Payout)
}
