package api

import (
	"net/http"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// listEvents serves GET /v1/events, newest first.
func (s *Server) listEvents(r *http.Request) (int, any, error) {
	ctx, caller := r.Context(), callerFrom(r.Context())
	q := readQuery(r, "type", "session")
	filter := storage.EventFilter{
		Type:      optionalChoice(q, "type", webhook.EventTypes),
		SessionID: optionalID(q, "session", checkout.PrefixSession),
	}
	return answerList(
		q,
		checkout.PrefixEvent,
		func(e webhook.Event) string { return e.ID },
		func(p storage.Page) ([]webhook.Event, error) {
			return s.Store.Events(ctx, caller.Key.Owner, filter, p)
		},
	)
}

// getEvent serves GET /v1/events/{id}.
func (s *Server) getEvent(r *http.Request) (int, any, error) {
	id, err := pathID(r, checkout.PrefixEvent)
	if err != nil {
		return 0, nil, err
	}
	caller := callerFrom(r.Context())
	e, err := s.Store.Event(r.Context(), caller.Key.Owner.Ref(id))
	return http.StatusOK, e, err
}
