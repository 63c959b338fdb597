package api

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// maxEvents limits the entries of events, counted with duplicates. Source: api/decisions/webhooks.md, "registration".
const maxEvents = 100

// createEndpoint serves POST /v1/webhooks. Only this answer and the answer of rotate_secret show a registration's
// secret. Source: api/interface.md, "Register a webhook".
func (s *Server) createEndpoint(r *http.Request, e webhook.Endpoint) (int, any, error) {
	got, err := s.actions.CreateEndpoint(r.Context(), e, actor(r))
	return http.StatusCreated, located{"/v1/webhooks/" + got.ID, got}, err
}

// newEndpoint reads the body of a registration. The error has all faults of the body.
func (s *Server) newEndpoint(r *http.Request) (webhook.Endpoint, error) {
	f, err := readObject(r, "url", "events", "description", "max_in_flight", "rate_limit")
	if err != nil {
		return webhook.Endpoint{}, err
	}
	ctx := r.Context()
	e := webhook.Endpoint{
		Ref:    callerFrom(ctx).Key.Owner.Ref(newID(ctx, checkout.PrefixEndpoint)),
		Status: webhook.EndpointEnabled, Secret: newSecret(ctx),
	}
	if address := s.receiver(ctx, f, "url", e.Mode, true); address != nil {
		e.URL = *address
	}
	e.Events = f.events()
	if text := f.description(); text != nil && *text != "" {
		e.Description = text
	}
	e.MaxInFlight, e.RateLimit = f.limit("max_in_flight"), f.limit("rate_limit")
	if err := ctx.Err(); err != nil {
		return e, fmt.Errorf("check url: %w", err)
	}
	return e, f.err()
}

// description reads a registration's description. It returns nil when the field is missing, and a
// pointer to "" when the merchant clears the description.
func (f fields) description() *string {
	text, ok := f.optionalText("description")
	if !ok {
		return nil
	}
	if err := webhook.CheckDescription(text); err != nil {
		f.add("description", err.Error()) // CheckDescription writes its errors for merchants
	}
	return &text
}

// limit reads a limit of a registration; nil when there is none.
func (f fields) limit(name string) *int {
	if _, ok := f.optional(name); !ok {
		return nil
	}
	return new(f.whole(name, 1, webhook.MaxLimit, 0))
}

// changedLimit reads the change of a limit: nil for none, and 0 for null, which brings the default back.
func (f fields) changedLimit(name string) *int {
	if slices.Contains(f.nulls, name) {
		return new(0)
	}
	return f.limit(name)
}

// listEndpoints serves GET /v1/webhooks, newest first.
func (s *Server) listEndpoints(r *http.Request) (int, any, error) {
	q := readQuery(r, "status")
	status := optionalChoice(q, "status", webhook.EndpointStatuses)
	return listOf(r, q, checkout.PrefixEndpoint, status, s.Store.Webhooks.Endpoints)
}

// changeEndpoint serves PATCH /v1/webhooks/{id}.
func (s *Server) changeEndpoint(r *http.Request, e webhook.Endpoint) (int, any, error) {
	change, err := s.endpointChange(r, e.Mode)
	if err != nil {
		return 0, nil, err
	}
	got, err := s.actions.ChangeEndpoint(r.Context(), e.Ref, change, actor(r))
	return http.StatusOK, got, err
}

// endpointChange reads the body of a change. The error has all faults of the body.
func (s *Server) endpointChange(r *http.Request, mode checkout.Mode) (c storage.EndpointChange, err error) {
	f, err := readObject(r, "url", "events", "description", "status", "max_in_flight", "rate_limit")
	if err != nil {
		return c, err
	}
	ctx := r.Context()
	c.URL = s.receiver(ctx, f, "url", mode, false)
	if _, ok := f.optional("events"); ok {
		c.Events = f.events()
	}
	if text := f.description(); text != nil {
		c.Description, c.ClearDescription = text, *text == ""
	}
	if _, ok := f.optional("status"); ok {
		status := requiredChoice(f, "status", webhook.EndpointStatuses)
		c.Status = &status
	}
	c.MaxInFlight, c.RateLimit = f.changedLimit("max_in_flight"), f.changedLimit("rate_limit")

	if err := ctx.Err(); err != nil {
		return c, fmt.Errorf("check url: %w", err)
	}
	if f.err() == nil && c.Empty() {
		return c, invalid("The body must have at least one of url, events, description, status, max_in_flight, rate_limit.")
	}
	return c, f.err()
}

// setEndpointStatus serves POST /v1/webhooks/{id}/hold and …/resume.
func (s *Server) setEndpointStatus(
	status webhook.EndpointStatus,
) func(*http.Request, webhook.Endpoint) (int, any, error) {
	return func(r *http.Request, e webhook.Endpoint) (int, any, error) {
		got, err := s.actions.SetEndpointStatus(r.Context(), e.Ref, status, actor(r))
		return http.StatusOK, got, err
	}
}

// deleted is the answer to a deletion.
type deleted struct {
	ID      string `json:"id"`
	Deleted bool   `json:"deleted"` // always true
}

// deleteEndpoint serves DELETE /v1/webhooks/{id}. Pending deliveries of the registration are
// canceled.
func (s *Server) deleteEndpoint(r *http.Request, e webhook.Endpoint) (int, any, error) {
	return http.StatusOK, deleted{e.ID, true}, s.actions.DeleteEndpoint(r.Context(), e, actor(r))
}

// events reads the required event types. It drops duplicates and keeps the order.
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

	elements := arrayElements(value)
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
		case typ.Valid(), typ == webhook.AllEvents:
			types = append(types, typ)
		default:
			f.add(param, "must be one of "+list(webhook.EventTypes))
		}
	}

	if slices.Contains(types, webhook.AllEvents) && len(types) > 1 {
		f.add(name, `must not combine "*" (all events) with other event types`)
	}
	return types
}

// Hours during which both secrets sign. Source: api/decisions/signatures.md, "rotation".
const (
	defaultOverlapHours = int(webhook.DefaultRotationOverlap / time.Hour)
	maxOverlapHours     = int(webhook.MaxRotationOverlap / time.Hour)
)

// rotateSecret serves POST /v1/webhooks/{id}/rotate_secret. No other answer shows the new secret.
func (s *Server) rotateSecret(r *http.Request, e webhook.Endpoint) (int, any, error) {
	f, err := readOptional(r, "overlap_hours")
	if err != nil {
		return 0, nil, err
	}
	overlap := time.Duration(f.whole("overlap_hours", 0, maxOverlapHours, defaultOverlapHours)) * time.Hour
	if err := f.err(); err != nil {
		return 0, nil, err
	}
	got, err := s.actions.RotateSecret(r.Context(), e.Ref, newSecret(r.Context()), overlap, actor(r))
	return http.StatusOK, got, err
}
