package dashboard

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
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
var overlaps = []overlap{
	overlapOf(webhook.DefaultRotationOverlap), {1, "for an hour"},
	overlapOf(webhook.MaxRotationOverlap), {0, "not at all"},
}

func overlapOf(d time.Duration) overlap {
	hours := int(d / time.Hour)
	return overlap{hours, fmt.Sprintf("for %d hours", hours)}
}

const recentDeliveries = 10

// showWebhook serves GET …/webhooks/{id}.
func (s *server) showWebhook(v page.Visit, e webhook.Endpoint) (page.Answer, error) {
	health, err := s.Store.Webhooks.EndpointHealth(v.Context(), v.Owner(), healthWindow)
	if err != nil {
		return page.Answer{}, err
	}
	rows, err := s.deliveryRows(v, storage.DeliveryFilter{EndpointID: e.ID}, pg.Page{Limit: recentDeliveries})
	if err != nil {
		return page.Answer{}, err
	}
	types := slices.Clone(e.EventTypes())
	for _, typ := range webhook.EventTypes {
		if !slices.Contains(types, typ) {
			types = append(types, typ)
		}
	}
	return page.Show(
		"webhook", "Webhook",
		webhookPage{Endpoint: e, Health: health[e.ID], Deliveries: rows, Overlaps: overlaps, Types: types},
	)
}

// editWebhook serves GET …/webhooks/{id}/edit.
func (s *server) editWebhook(v page.Visit, e webhook.Endpoint) (page.Answer, error) {
	f := webhookForm{ID: e.ID, Was: e}.Before()
	f.ID, f.Was = e.ID, e
	return page.Show("webhook_form", "Change the webhook", f)
}

var (
	webhookChanged = page.Notice(
		"webhook_changed",
		"The webhook was changed. The change also applies to its pending deliveries.",
	)
	webhookHeld    = page.Notice("webhook_held", "The webhook is on hold. Its events wait, and no attempt is used up.")
	webhookResumed = page.Notice("webhook_resumed", "The webhook is enabled. Waiting events are being sent.")
	webhookDeleted = page.Notice("webhook_deleted", "The webhook was deleted, and its pending deliveries are canceled.")
)

// changeWebhook serves POST …/webhooks/{id}.
func (s *server) changeWebhook(v page.Visit, e webhook.Endpoint) (page.Answer, error) {

	f, err := s.readWebhook(v)
	if err != nil {
		return page.Answer{}, err
	}
	if len(f.Faults) > 0 {
		return page.Refuse("webhook_form", "Change the webhook", f)
	}

	change := f.change()
	if change.Empty() {
		return page.GoTo(v.Path("/webhooks/"+e.ID), page.NothingChanged)
	}

	_, err = s.actions.ChangeEndpoint(v.Context(), e.Ref, change, v.By())
	if conflict, ok := errors.AsType[*pg.ChangedError](err); ok {
		return s.webhookConflict(v, f, conflict)
	}
	return page.GoToAfter(err, v.Path("/webhooks/"+e.ID), webhookChanged)
}

// change returns the person's changes in the form. Fields that the person has not changed stay as
// they are stored.
func (f webhookForm) change() storage.EndpointChange {
	c, before := storage.EndpointChange{Was: &f.Was}, f.Before()
	if f.URL != before.URL {
		c.URL = &f.URL
	}
	if !slices.Equal(f.Events, eventsOf(typeNames(before.Events))) {
		c.Events = f.Events
	}
	if f.Description != before.Description {
		c.Description, c.ClearDescription = &f.Description, f.Description == ""
	}
	if f.MaxInFlight != before.MaxInFlight {
		c.MaxInFlight = changedLimit(f.MaxInFlight)
	}
	if f.RateLimit != before.RateLimit {
		c.RateLimit = changedLimit(f.RateLimit)
	}
	return c
}

// changedLimit returns the change to a limit as typed, which is valid.
func changedLimit(text string) *int {
	if limit, _ := limitOf(text); limit != nil {
		return limit
	}
	return new(0)
}

func eventTypes(texts []string) (all []webhook.EventType) {
	for _, text := range texts {
		all = append(all, webhook.EventType(text))
	}
	return all
}

func typeNames(types []webhook.EventType) (all []string) {
	for _, typ := range types {
		all = append(all, string(typ))
	}
	return all
}

// texts returns the fields of the form but the events, by their names.
func (f *webhookForm) texts() map[string]*string {
	return map[string]*string{
		"url": &f.URL, "description": &f.Description, "max_in_flight": &f.MaxInFlight, "rate_limit": &f.RateLimit,
	}
}

// webhookConflict shows the form again after another person has changed the registration first.
// Fields in conflict show the stored value, other fields the typed value.
func (s *server) webhookConflict(v page.Visit, f webhookForm, conflict *pg.ChangedError) (page.Answer, error) {
	e, err := s.Store.Webhooks.Endpoint(v.Context(), v.Owner().Ref(f.ID))
	if err != nil {
		return page.Answer{}, err
	}

	before, change := f.Before(), f.change()
	f.Was = e
	now := f.Before()
	was, stored := before.texts(), now.texts()
	for name, typed := range f.texts() {
		conflicts := slices.Contains(conflict.Fields, name)
		if conflicts {
			f.Faults[name] = conflictFault(*typed)
		}
		if conflicts || *typed == *was[name] {
			*typed = *stored[name]
		}
	}
	conflicts := slices.Contains(conflict.Fields, "events")
	if conflicts {
		f.Faults["events"] = conflictFault(strings.Join(typeNames(f.Events), ", "))
	}
	if conflicts || change.Events == nil {
		f.Events = now.Events
	}
	return page.Answer{Status: http.StatusConflict, Page: "webhook_form", Title: "Change the webhook", Data: f}, nil
}

// setWebhookStatus serves POST …/webhooks/{id}/hold and …/resume.
func (s *server) setWebhookStatus(
	status webhook.EndpointStatus, notice string,
) func(page.Visit, webhook.Endpoint) (page.Answer, error) {
	return func(v page.Visit, e webhook.Endpoint) (page.Answer, error) {
		_, err := s.actions.SetEndpointStatus(v.Context(), e.Ref, status, v.By())
		return page.GoToAfter(err, v.Path("/webhooks/"+e.ID), notice)
	}
}

var testSent = page.Notice("test_sent", "The test event is on its way. This page shows the result.")

// sendTestEvent serves POST …/webhooks/{id}/test.
func (s *server) sendTestEvent(v page.Visit, e webhook.Endpoint) (page.Answer, error) {
	typ := webhook.EventType(v.PostFormValue("type"))
	if !typ.Valid() {
		typ = e.EventTypes()[0] // never empty
	}
	merchant, err := s.Store.Merchants.Merchant(v.Context(), v.MerchantID())
	if err != nil {
		return page.Answer{}, err
	}
	_, d, err := s.actions.PublishTest(v.Context(), storage.TestEvent{
		Owner: e.Owner, EndpointID: e.ID, SubjectID: checkout.NewID(checkout.PrefixTest), Type: typ,
		Data: func(at time.Time) any { return typ.Sample(merchant, json.RawMessage("{}"), at) },
	}, v.By())
	return page.GoToAfter(err, v.Path("/deliveries/"+d.ID), testSent)
}

// rotateSecret serves POST …/webhooks/{id}/rotate.
func (s *server) rotateSecret(v page.Visit, e webhook.Endpoint) (page.Answer, error) {
	hours, err := strconv.Atoi(v.PostFormValue("hours"))
	if err != nil || !slices.ContainsFunc(overlaps, func(o overlap) bool { return o.Hours == hours }) {
		hours = overlaps[0].Hours
	}
	secret := webhook.NewSecret()
	return page.CreateAndReveal(s.Store.Secrets, v, e.ID, secret, secretOfWebhook(v), func() error {
		_, err := s.actions.RotateSecret(v.Context(), e.Ref, secret, time.Duration(hours)*time.Hour, v.By())
		return err
	})
}

// deletePage asks for confirmation before a registration is deleted.
type deletePage struct {
	webhook.Endpoint
	Pending int // deliveries that would be canceled
}

// askToDelete serves GET …/webhooks/{id}/delete.
func (s *server) askToDelete(v page.Visit, e webhook.Endpoint) (page.Answer, error) {
	pending, err := s.Store.Webhooks.CountPending(v.Context(), v.Owner(), e.ID)
	return page.ShowAfter(err, "webhook_delete", "Delete the webhook", deletePage{e, pending})
}

// deleteWebhook serves POST …/webhooks/{id}/delete.
func (s *server) deleteWebhook(v page.Visit, e webhook.Endpoint) (page.Answer, error) {
	err := s.actions.DeleteEndpoint(v.Context(), e, v.By())
	return page.GoToAfter(err, v.Path("/webhooks"), webhookDeleted)
}

// showWebhookSecret serves GET …/webhooks/{id}/secret. It shows the secret only while it is
// the registration's current one.
func (s *server) showWebhookSecret(v page.Visit, e webhook.Endpoint) (page.Answer, error) {
	var err error
	if e.Secret, err = s.Store.Secrets.TakeReveal(v.Context(), v.Reveal(e.ID)); err != nil {
		return page.ExplainMissingReveal(err, v.Path("/webhooks/"+e.ID))
	}
	keys, err := s.Store.Webhooks.WebhookKeys(v.Context(), v.Owner(), "")
	if err != nil {
		return page.Answer{}, err
	}
	for _, k := range keys {
		if k.EndpointID == e.ID && bytes.Equal(k.Current, webhook.SecretDigest(e.Secret)) {
			return page.Show("webhook_secret", "The signing secret", secretShown{e, k.Previous == nil})
		}
	}
	return page.GoTo(v.Path("/webhooks/"+e.ID), page.RevealGone)
}
