package dashboard

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"example.com/checkout/api/dashboard/page"
	"example.com/checkout/storage"
	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// healthWindow is the time before now that a registration's health covers.
const healthWindow = 24 * time.Hour

// webhooksPage lists the registrations.
type webhooksPage struct {
	Webhooks []webhookRow
	Full     bool // the limit is reached
	Limit    int
}

// webhookRow is a registration and the outcome of its deliveries.
type webhookRow struct {
	webhook.Endpoint
	Health storage.EndpointHealth
}

// listWebhooks serves GET …/webhooks. The list needs no pages, because the number of
// registrations is limited.
func (s *server) listWebhooks(v page.Visit) (page.Answer, error) {
	endpoints, err := s.endpoints(v)
	if err != nil {
		return page.Answer{}, err
	}
	health, err := s.Store.Webhooks.EndpointHealth(v.Context(), v.Owner(), healthWindow)
	if err != nil {
		return page.Answer{}, err
	}
	p := webhooksPage{Full: len(endpoints) >= webhook.MaxEndpoints, Limit: webhook.MaxEndpoints}
	for _, e := range endpoints {
		p.Webhooks = append(p.Webhooks, webhookRow{e, health[e.ID]})
	}
	return page.Show("webhooks", "Webhooks", p)
}

func (s *server) endpoints(v page.Visit) ([]webhook.Endpoint, error) {
	return s.Store.Webhooks.Endpoints(v.Context(), v.Owner(), "", pg.Page{Limit: webhook.MaxEndpoints})
}

// webhookForm is the form to create or change a registration.
type webhookForm struct {
	ID          string // "" for a new one
	URL         string
	Description string
	Events      []webhook.EventType
	MaxInFlight string            // as typed, "" for the default
	RateLimit   string            // as typed, "" for the default
	Was         webhook.Endpoint  // stored registration when the form was shown
	Faults      map[string]string // by the field's name
}

// Before returns the form's values when it was shown, for its hidden fields.
func (f webhookForm) Before() webhookForm {
	b := webhookForm{
		URL: f.Was.URL, Events: f.Was.Events,
		MaxInFlight: limitText(f.Was.MaxInFlight), RateLimit: limitText(f.Was.RateLimit),
	}
	if f.Was.Description != nil {
		b.Description = *f.Was.Description
	}
	return b
}

func limitText(limit *int) string {
	if limit == nil {
		return ""
	}
	return strconv.Itoa(*limit)
}

// limitOf reads the text of a limit, nil for the default. It returns false unless it is a whole number from 1 to
// webhook.MaxLimit.
func limitOf(text string) (*int, bool) {
	if text == "" {
		return nil, true
	}
	n, err := strconv.Atoi(text)
	return &n, err == nil && n >= 1 && n <= webhook.MaxLimit
}

// Chosen reports whether an event type is chosen.
func (f webhookForm) Chosen(typ webhook.EventType) bool { return slices.Contains(f.Events, typ) }

func (s *server) newWebhook(page.Visit) (page.Answer, error) {
	return page.Show("webhook_form", "Add a webhook", webhookForm{Events: []webhook.EventType{webhook.AllEvents}})
}

// readWebhook reads the form and checks it like the REST API.
func (s *server) readWebhook(v page.Visit) (webhookForm, error) {
	f := webhookForm{
		ID: v.ID(), URL: strings.TrimSpace(v.PostFormValue("url")),
		Description: strings.TrimSpace(v.PostFormValue("description")), Faults: map[string]string{},
		MaxInFlight: strings.TrimSpace(v.PostFormValue("max_in_flight")),
		RateLimit:   strings.TrimSpace(v.PostFormValue("rate_limit")),
	}
	f.Events = eventsOf(v.PostForm["events"])
	f.Was = webhook.Endpoint{
		URL:         v.PostFormValue("before_url"),
		Events:      eventTypes(v.PostForm["before_events"]),
		Description: new(v.PostFormValue("before_description")),
	}
	f.Was.MaxInFlight, _ = limitOf(v.PostFormValue("before_max_in_flight"))
	f.Was.RateLimit, _ = limitOf(v.PostFormValue("before_rate_limit"))
	for name, text := range map[string]string{"max_in_flight": f.MaxInFlight, "rate_limit": f.RateLimit} {
		if _, ok := limitOf(text); !ok {
			f.Faults[name] = fmt.Sprintf("The limit must be a whole number from 1 to %d.", webhook.MaxLimit)
		}
	}
	if len(f.Events) == 0 {
		f.Faults["events"] = "Choose at least one event."
	}
	if err := webhook.CheckDescription(f.Description); err != nil {
		f.Faults["description"] = "The description " + err.Error() + "."
	}
	if u, err := webhook.ParseURL(f.URL, v.Mode); err != nil {
		f.Faults["url"] = "The URL " + err.Error() + "."
	} else if err := s.CheckAddress(v.Context(), v.Mode, u.Hostname()); err != nil {
		f.Faults["url"] = "The URL " + err.Error() + "."
	}
	return f, v.Context().Err() // a name lookup that ran out of time is not the person's mistake
}

// eventsOf returns what the ticked boxes choose: all events, or the known event types in their usual order.
func eventsOf(chosen []string) (types []webhook.EventType) {
	if slices.Contains(chosen, string(webhook.AllEvents)) {
		return []webhook.EventType{webhook.AllEvents}
	}
	for _, typ := range webhook.EventTypes {
		if slices.Contains(chosen, string(typ)) {
			types = append(types, typ)
		}
	}
	return types
}

// secretShown is the page that shows a secret once.
type secretShown struct {
	webhook.Endpoint
	New bool // the registration is new
}

// createWebhook serves POST …/webhooks.
func (s *server) createWebhook(v page.Visit) (page.Answer, error) {
	f, err := s.readWebhook(v)
	if err != nil {
		return page.Answer{}, err
	}
	if len(f.Faults) > 0 {
		return page.Refuse("webhook_form", "Add a webhook", f)
	}

	e := webhook.Endpoint{
		Ref: v.Owner().Ref(checkout.NewID(checkout.PrefixEndpoint)), URL: f.URL, Events: f.Events,
		Status: webhook.EndpointEnabled, Secret: webhook.NewSecret(),
	}
	if f.Description != "" {
		e.Description = &f.Description
	}
	e.MaxInFlight, _ = limitOf(f.MaxInFlight)
	e.RateLimit, _ = limitOf(f.RateLimit)

	got, err := page.CreateAndReveal(s.Store.Secrets, v, e.ID, e.Secret, secretOfWebhook(v), func() error {
		_, err := s.actions.CreateEndpoint(v.Context(), e, v.By())
		return err
	})

	if errors.Is(err, storage.ErrTooManyEndpoints) {
		f.Faults["url"] = "The limit of webhooks is reached. Delete one first."
		return page.Refuse("webhook_form", "Add a webhook", f)
	}
	return got, err
}

// secretOfWebhook returns a function from a registration's id to the address of the page with its
// secret.
func secretOfWebhook(v page.Visit) func(id string) string {
	return func(id string) string { return v.Path("/webhooks/" + id + "/secret") }
}
