package api

import (
	"encoding/json"
	"net/http"
	"time"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// sentTestEvent is the answer to a test event.
type sentTestEvent struct {
	Event    webhook.Event    `json:"event"`
	Delivery webhook.Delivery `json:"delivery"`
}

// sendTestEvent serves POST /v1/webhooks/{id}/test. Only this registration gets the event, even
// when its list of events does not include the type.
func (s *Server) sendTestEvent(r *http.Request, e webhook.Endpoint) (int, any, error) {
	ctx, caller := r.Context(), callerFrom(r.Context())
	members, err := readOptional(r)
	if err != nil {
		return 0, nil, err
	}
	typ, metadata, err := newTestEvent(e, members)
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
func newTestEvent(e webhook.Endpoint, members []member) (webhook.EventType, json.RawMessage, error) {
	f := newFields(members, "type", "metadata")
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
