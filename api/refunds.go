package api

import (
	"net/http"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
)

// refundSession serves POST /v1/checkout/{id}/refund.
func (s *Server) refundSession(r *http.Request, session checkout.Session) (int, any, error) {
	order, err := newRefund(r, session)
	if err != nil {
		return 0, nil, err
	}
	got, err := s.actions.RefundSession(r.Context(), order, actor(r))
	return http.StatusCreated, located{"/v1/refunds/" + got.ID, got}, refundRefusal(session, err)
}

// newRefund reads the body of a refund. The error has all faults of the body.
func newRefund(r *http.Request, session checkout.Session) (o storage.RefundOrder, err error) {
	f, err := readOptional(r, "amount", "reason")
	if err != nil {
		return o, err
	}
	o = storage.RefundOrder{
		ID: newID(r.Context(), checkout.PrefixRefund), Session: session.Ref,
		Reason: optionalChoice(f, "reason", checkout.RefundReasons),
	}
	if value, ok := f.optional("amount"); ok {
		o.Amount = f.amountIn(value, money.ParsePart)
	}
	return o, f.err()
}

// listRefunds serves GET /v1/refunds, newest first.
func (s *Server) listRefunds(r *http.Request) (int, any, error) {
	q := readQuery(r, "status", "session")
	filter := storage.RefundFilter{
		Status:    optionalChoice(q, "status", checkout.RefundStatuses),
		SessionID: optionalID(q, "session", checkout.PrefixSession),
	}
	return listOf(r, q, checkout.PrefixRefund, filter, s.Store.Refunds.Refunds)
}
