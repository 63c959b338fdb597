package api

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"unicode/utf8"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// Limits of a registration. Source: decisions.md, "registration".
const (
	maxEvents      = 100 // entries, before those that are there twice are dropped
	maxDescription = 255 // characters
)

// createEndpoint serves POST /v1/webhooks. Only its answer has the secret.
// Source: interface document, "Register a webhook".
func (s *Server) createEndpoint(r *http.Request) (int, any, error) {
	members, err := readObject(r)
	if err != nil {
		return 0, nil, err
	}
	e, err := s.newEndpoint(r.Context(), callerFrom(r.Context()), members)
	if err != nil {
		return 0, nil, err
	}
	got, err := s.Store.CreateEndpoint(r.Context(), e)
	if err != nil {
		return 0, nil, err
	}
	return http.StatusCreated, located{"/v1/webhooks/" + got.ID, got}, nil
}

// newEndpoint reads the body of a registration. It returns all faults of it at
// once.
func (s *Server) newEndpoint(ctx context.Context, caller storage.Caller, members []member) (webhook.Endpoint, error) {
	var found faults
	f := newFields(&found, members, "url", "events", "description")
	e := webhook.Endpoint{
		ID: checkout.NewID(checkout.PrefixEndpoint), MerchantID: caller.Merchant.ID, Mode: caller.Key.Mode,
		Status: webhook.EndpointEnabled, Secret: webhook.NewSecret(),
	}
	if address := s.receiver(ctx, f, "url", e.Mode, true); address != nil {
		e.URL = *address
	}
	e.Events = f.events()
	if text, ok := f.optionalText("description"); ok {
		if utf8.RuneCountInString(text) > maxDescription || hasControl(text) {
			f.add("description", fmt.Sprintf("must have at most %d characters and no control characters", maxDescription))
		}
		e.Description = &text
	}
	if err := ctx.Err(); err != nil {
		return e, fmt.Errorf("check url: %w", err)
	}
	return e, found.err()
}

// allEvents stands for every event type, alone in the array.
const allEvents = "*"

// events reads the event types that must be there, each once, in the order of
// their first appearance.
func (f fields) events() []webhook.EventType {
	const name = "events"
	value, ok := f.required(name)
	if !ok {
		return nil
	}
	if value.Kind() != '[' {
		f.add(name, "must be an array of event types")
		return nil
	}
	elements, err := arrayElements(value)
	if err != nil { // checkSyntax has seen it
		f.add(name, "must be valid JSON")
		return nil
	}
	if len(elements) == 0 || len(elements) > maxEvents {
		f.add(name, fmt.Sprintf("must have 1 to %d entries", maxEvents))
		return nil
	}
	var types []webhook.EventType
	for i, element := range elements {
		param := fmt.Sprintf("%s[%d]", name, i)
		text, ok := f.text(param, element)
		typ := webhook.EventType(text)
		switch {
		case !ok, slices.Contains(types, typ):
		case typ.Valid(), text == allEvents:
			types = append(types, typ)
		default:
			f.add(param, "must be one of "+list(webhook.EventTypes))
		}
	}
	if slices.Contains(types, allEvents) {
		if len(types) > 1 {
			f.add(name, `must not name other event types beside "*", which stands for all`)
		}
		return slices.Clone(webhook.EventTypes)
	}
	return types
}
