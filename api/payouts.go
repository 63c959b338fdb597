package api

import (
	"net/http"

	"example.com/checkout/storage"
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
	return answerList(
		q,
		checkout.PrefixPayout,
		func(p checkout.Payout) string { return p.ID },
		func(p storage.Page) ([]checkout.Payout, error) {
			return s.Store.Payouts(ctx, caller.Key.Owner, filter, p)
		},
	)
}

// getPayout serves GET /v1/payouts/{id}.
func (s *Server) getPayout(r *http.Request) (int, any, error) {
	id, err := pathID(r, checkout.PrefixPayout)
	if err != nil {
		return 0, nil, err
	}
	caller := callerFrom(r.Context())
	p, _, err := s.Store.Payout(r.Context(), caller.Key.Owner.Ref(id))
	return http.StatusOK, p, err
}
