package api

import (
	"net/http"

	"example.com/checkout/storage"
	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
)

// listTransactions serves GET /v1/transactions, newest first. Like a session's timeline it has decided payments
// only.
func (s *Server) listTransactions(r *http.Request) (int, any, error) {
	ctx, caller := r.Context(), callerFrom(r.Context())
	q := readQuery(r, "status", "session")
	filter := storage.TransactionFilter{
		Status:    optionalChoice(q, "status", checkout.DecidedTransactions),
		SessionID: optionalID(q, "session", checkout.PrefixSession),
	}
	return answerList(q, checkout.PrefixTransaction, func(p pg.Page) ([]checkout.Transaction, error) {
		return s.Store.Transactions(ctx, caller.Key.Owner, filter, p)
	})
}

// getTransaction serves GET /v1/transactions/{id}. A payment that is not decided is a 404.
func (s *Server) getTransaction(r *http.Request) (int, any, error) {
	t, err := named(r, checkout.PrefixTransaction, s.Store.Transaction)
	return http.StatusOK, t, err
}
