package dashboard

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"example.com/checkout/api/action"
	"example.com/checkout/storage"
	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// webhookPage shows one registration.
type webhookPage struct {
	webhook.Endpoint
	Health     storage.EndpointHealth
	Deliveries []deliveryRow
	Overlaps   []overlap
	Types      []webhook.EventType // choices for a test event; the registration's own types come first
}

// overlap is how long both secrets sign.
type overlap struct {
	Hours int
	Words string
}

// overlaps are the choices of a rotation. The default comes first.
var overlaps = []overlap{{24, "for 24 hours"}, {1, "for an hour"}, {72, "for 3 days"}, {0, "not at all"}}

const recentDeliveries = 10

// endpoint reads the registration in the path.
func (s *server) endpoint(v visit) (webhook.Endpoint, error) {
	return s.Store.Endpoint(v.Context(), v.Owner().Ref(v.ID()))
}

// showWebhook serves GET /{mode}/webhooks/{id}.
func (s *server) showWebhook(v visit) (answer, error) {
	e, err := s.endpoint(v)
	if err != nil {
		return answer{}, err
	}
	health, err := s.Store.EndpointHealth(v.Context(), v.Owner(), healthWindow)
	if err != nil {
		return answer{}, err
	}
	rows, err := s.deliveryRows(
		v, storage.DeliveryFilter{EndpointID: e.ID}, pg.Page{Limit: recentDeliveries},
	)
	if err != nil {
		return answer{}, err
	}
	types := slices.Clone(e.EventTypes())
	for _, typ := range webhook.EventTypes {
		if !slices.Contains(types, typ) {
			types = append(types, typ)
		}
	}
	return show(
		"webhook", "Webhook",
		webhookPage{Endpoint: e, Health: health[e.ID], Deliveries: rows, Overlaps: overlaps, Types: types},
	)
}

// editWebhook serves GET /{mode}/webhooks/{id}/edit.
func (s *server) editWebhook(v visit) (answer, error) {
	e, err := s.endpoint(v)
	if err != nil {
		return answer{}, err
	}
	f := webhookForm{ID: e.ID, Was: e}.Before()
	f.ID, f.Was = e.ID, e
	return show("webhook_form", "Change the webhook", f)
}

var (
	webhookChanged = notice(
		"webhook_changed",
		"The webhook was changed. Attempts to come of its pending deliveries follow it.",
	)
	webhookHeld = notice(
		"webhook_held", "The webhook is on hold. Its events are kept, and no attempt is used up.",
	)
	webhookResumed = notice("webhook_resumed", "The webhook is enabled. What waited for it is being sent.")
	webhookDeleted = notice(
		"webhook_deleted", "The webhook was deleted, and its pending deliveries are canceled.",
	)
)

// changeWebhook serves POST /{mode}/webhooks/{id}.
func (s *server) changeWebhook(v visit) (answer, error) {
	e, err := s.endpoint(v)
	if err != nil {
		return answer{}, err
	}

	f, err := s.readWebhook(v)
	if err != nil {
		return answer{}, err
	}
	if len(f.Faults) > 0 {
		return refuse("webhook_form", "Change the webhook", f)
	}

	change := f.change()
	if change.URL == nil && change.Events == nil && change.Description == nil {
		return goTo(v.Path("/webhooks/"+e.ID), nothingChanged)
	}

	_, err = s.webhooks().ChangeEndpoint(v.Context(), e, change, v.audit("webhook.changed", e.ID, ""))
	var conflict *storage.ChangedError
	if errors.As(err, &conflict) {
		return s.webhookConflict(v, f, conflict)
	}
	if err != nil {
		return answer{}, err
	}
	return goTo(v.Path("/webhooks/"+e.ID), webhookChanged)
}

// change returns the person's changes in the form. Fields that the person has not changed stay as
// they are stored.
func (f webhookForm) change() storage.EndpointChange {
	c, before := storage.EndpointChange{Was: &f.Was}, f.Before()
	if f.URL != before.URL {
		c.URL = &f.URL
	}
	if !slices.Equal(eventsOf(texts(f.Events)), eventsOf(texts(before.Events))) {
		c.Events = f.Events
	}
	if f.Description != before.Description {
		c.Description, c.ClearDescription = &f.Description, f.Description == ""
	}
	return c
}

func texts(types []webhook.EventType) (all []string) {
	for _, typ := range types {
		all = append(all, string(typ))
	}
	return all
}

// webhookConflict shows the form again after another person has changed the registration first.
// Fields in conflict show the stored value, other fields the typed value.
func (s *server) webhookConflict(v visit, f webhookForm, conflict *storage.ChangedError) (answer, error) {
	e, err := s.endpoint(v)
	if err != nil {
		return answer{}, err
	}

	typed, change := f, f.change()
	f.Was = e
	now := f.Before()
	f.URL, f.Description, f.Events = now.URL, now.Description, now.Events
	if change.URL != nil && !slices.Contains(conflict.Fields, "url") {
		f.URL = typed.URL
	}
	if change.Description != nil && !slices.Contains(conflict.Fields, "description") {
		f.Description = typed.Description
	}
	if change.Events != nil && !slices.Contains(conflict.Fields, "events") {
		f.Events = typed.Events
	}

	said := map[string]string{
		"url":         typed.URL,
		"description": typed.Description,
		"events":      strings.Join(texts(typed.Events), ", "),
	}
	for _, field := range conflict.Fields {
		f.Faults[field] = conflictFault(said[field])
	}
	return answer{status: http.StatusConflict, page: "webhook_form", title: "Change the webhook", data: f}, nil
}

func (s *server) holdWebhook(v visit) (answer, error) {
	return s.setWebhookStatus(v, webhook.EndpointDisabled, "webhook.held", webhookHeld)
}

func (s *server) resumeWebhook(v visit) (answer, error) {
	return s.setWebhookStatus(v, webhook.EndpointEnabled, "webhook.resumed", webhookResumed)
}

func (s *server) setWebhookStatus(
	v visit, status webhook.EndpointStatus, what, notice string,
) (answer, error) {
	e, err := s.endpoint(v)
	if err != nil {
		return answer{}, err
	}
	if _, err := s.webhooks().ChangeEndpoint(v.Context(), e, storage.EndpointChange{Status: &status}, v.audit(what,
		e.ID, "")); err != nil {
		return answer{}, err
	}
	return goTo(v.Path("/webhooks/"+e.ID), notice)
}

var testSent = notice("test_sent", "The test event is on its way. This page shows what became of it.")

// sendTestEvent serves POST /{mode}/webhooks/{id}/test.
func (s *server) sendTestEvent(v visit) (answer, error) {
	e, err := s.endpoint(v)
	if err != nil {
		return answer{}, err
	}
	typ := webhook.EventType(v.PostFormValue("type"))
	if !typ.Valid() {
		typ = e.EventTypes()[0] // never empty
	}
	merchant, err := s.Store.Merchant(v.Context(), v.MerchantID())
	if err != nil {
		return answer{}, err
	}
	_, d, err := s.webhooks().PublishTest(v.Context(), storage.TestEvent{
		Owner: e.Owner, EndpointID: e.ID, SubjectID: checkout.NewID(checkout.PrefixTest), Type: typ,
		Data: func(at time.Time) any { return typ.Sample(merchant, json.RawMessage("{}"), at) },
	}, v.audit("webhook.tested", e.ID, string(typ)))
	if err != nil {
		return answer{}, err
	}
	return goTo(v.Path("/deliveries/"+d.ID), testSent)
}

// rotateSecret serves POST /{mode}/webhooks/{id}/rotate.
func (s *server) rotateSecret(v visit) (answer, error) {
	hours, err := strconv.Atoi(v.PostFormValue("hours"))
	if err != nil || !slices.ContainsFunc(overlaps, func(o overlap) bool { return o.Hours == hours }) {
		hours = overlaps[0].Hours
	}
	e, err := s.endpoint(v)
	if err != nil {
		return answer{}, err
	}
	secret := webhook.NewSecret()
	return s.made(v, e.ID, secret, secretOfWebhook(v), func() error {
		_, err := s.Store.RotateSecret(
			v.Context(), e.Ref, secret, time.Duration(hours)*time.Hour,
			v.audit("webhook.secret_rotated", e.ID, action.RotationDetail(hours)),
		)
		return err
	})
}

// deletePage asks for confirmation before a registration is deleted.
type deletePage struct {
	webhook.Endpoint
	Pending int // deliveries that would be canceled
}

// askToDelete serves GET /{mode}/webhooks/{id}/delete.
func (s *server) askToDelete(v visit) (answer, error) {
	e, err := s.endpoint(v)
	if err != nil {
		return answer{}, err
	}
	pending, err := s.Store.CountPending(v.Context(), v.Owner(), e.ID)
	if err != nil {
		return answer{}, err
	}
	return show("webhook_delete", "Delete the webhook", deletePage{e, pending})
}

// deleteWebhook serves POST /{mode}/webhooks/{id}/delete.
func (s *server) deleteWebhook(v visit) (answer, error) {
	e, err := s.endpoint(v)
	if err != nil {
		return answer{}, err
	}
	if err := s.webhooks().DeleteEndpoint(v.Context(), e, v.audit("webhook.deleted", e.ID,
		"for "+webhook.HostPortOf(e.URL))); err != nil {
		return answer{}, err
	}
	return goTo(v.Path("/webhooks"), webhookDeleted)
}
