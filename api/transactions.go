package api

import (
	"net/http"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
)

// listTransactions serves GET /v1/transactions, newest first. Like a session's timeline it has decided payments
// only.
func (s *Server) listTransactions(r *http.Request) (int, any, error) {
	q := readQuery(r, "status", "session")
	filter := storage.TransactionFilter{
		Status:    optionalChoice(q, "status", checkout.DecidedTransactions),
		SessionID: optionalID(q, "session", checkout.PrefixSession),
	}
	return listOf(r, q, checkout.PrefixTransaction, filter, s.Store.Sessions.Transactions)
}
