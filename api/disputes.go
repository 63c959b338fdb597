package api

import (
	"net/http"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
)

// listDisputes serves GET /v1/disputes, newest first.
func (s *Server) listDisputes(r *http.Request) (int, any, error) {
	q := readQuery(r, "status", "session")
	filter := storage.DisputeFilter{
		Status:    optionalChoice(q, "status", checkout.DisputeStatuses),
		SessionID: optionalID(q, "session", checkout.PrefixSession),
	}
	return listOf(r, q, checkout.PrefixDispute, filter, s.Store.Disputes.Disputes)
}
