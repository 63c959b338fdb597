package api

import (
	"context"
	"errors"
	"net/http"

	"example.com/checkout/storage"
	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// The values of order in a list of events, and where a feed goes on.
const (
	newestFirst = "desc"
	feedOrder   = "asc"
	afterEvent  = "after"
)

// listEvents serves GET /v1/events: newest first, or as a feed.
func (s *Server) listEvents(r *http.Request) (int, any, error) {
	q := readQuery(r, "type", "session", "order", afterEvent)
	if optionalChoice(q, "order", []string{newestFirst, feedOrder}) == feedOrder {
		return s.feedEvents(r.Context(), callerFrom(r.Context()), q)
	}
	if _, ok := q.values[afterEvent]; ok {
		q.add(afterEvent, "needs order=asc; "+nextPage)
	}
	filter := storage.EventFilter{
		Type:      optionalChoice(q, "type", webhook.EventTypes),
		SessionID: optionalID(q, "session", checkout.PrefixSession),
	}
	return listOf(r, q, checkout.PrefixEvent, filter, s.Store.Webhooks.Events)
}

// feedEvents serves GET /v1/events?order=asc. A filter would read the whole rest of the feed for each answer.
func (s *Server) feedEvents(ctx context.Context, caller storage.Caller, q query) (int, any, error) {
	for _, name := range []string{"type", "session", "since", "until"} {
		if _, ok := q.values[name]; ok {
			q.add(name, "cannot be combined with order=asc")
		}
	}
	after := optionalID(q, afterEvent, checkout.PrefixEvent)
	if _, ok := q.values["cursor"]; ok && after != "" {
		q.add("cursor", "cannot be combined with after")
	}

	return answerList(q, checkout.PrefixEvent, func(p pg.Page) ([]webhook.Event, error) {
		name := afterEvent
		if after == "" {
			name, after = "cursor", p.Before
		}
		got, err := s.Store.Webhooks.EventFeed(ctx, caller.Key.Owner, after, p.Limit)
		if errors.Is(err, checkout.ErrNotFound) {
			q.add(name, "must be one of your events in this mode that still exists; events are removed some time "+
				"after their last delivery. Start without it, and skip the ids that you already have")
			return nil, q.err()
		}
		return got, err
	})
}
