package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

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

// sentTestEvent is the answer to a test event.
type sentTestEvent struct {
	Event    webhook.Event    `json:"event"`
	Delivery webhook.Delivery `json:"delivery"`
}

// sendTestEvent serves POST /v1/webhooks/{id}/test. Only this registration gets the event, even
// when its list of events does not include the type.
func (s *Server) sendTestEvent(r *http.Request, e webhook.Endpoint) (int, any, error) {
	ctx, caller := r.Context(), callerFrom(r.Context())
	typ, metadata, err := newTestEvent(r, e)
	if err != nil {
		return 0, nil, err
	}
	event, d, err := s.actions.PublishTest(ctx, storage.TestEvent{
		Owner: e.Owner, EndpointID: e.ID, SubjectID: newID(ctx, checkout.PrefixTest), Type: typ,
		Data: func(at time.Time) any { return typ.Sample(caller.Merchant, metadata, at) },
	}, actor(r))
	return http.StatusAccepted, located{"/v1/deliveries/" + d.ID, sentTestEvent{event, d}}, err
}

// newTestEvent reads the body of a test event. The error has all faults of the body.
func newTestEvent(r *http.Request, e webhook.Endpoint) (webhook.EventType, json.RawMessage, error) {
	f, err := readOptional(r, "type", "metadata")
	if err != nil {
		return "", nil, err
	}
	typ := e.EventTypes()[0] // never empty
	if _, ok := f.optional("type"); ok {
		typ = requiredChoice(f, "type", webhook.EventTypes)
	}
	metadata, _ := f.metadata()
	if _, ok := f.optional("metadata"); ok && typ.Valid() && !typ.OfSession() {
		f.add("metadata", "is not part of "+string(typ))
	}
	return typ, metadata, f.err()
}
