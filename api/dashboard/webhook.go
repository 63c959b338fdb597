package dashboard

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// webhookPage is one registration.
type webhookPage struct {
	webhook.Endpoint
	Health     storage.EndpointHealth
	Deliveries []deliveryRow
	Overlaps   []overlap
	Types      []webhook.EventType // for a test event, those that it lists first
}

// overlap is for how long both secrets sign.
type overlap struct {
	Hours int
	Words string
}

// overlaps are the choices of a rotation, the default first.
var overlaps = []overlap{{24, "for 24 hours"}, {1, "for an hour"}, {72, "for 3 days"}, {0, "not at all"}}

const recentDeliveries = 10

// endpoint reads the registration that the path names.
func (s *server) endpoint(v visit) (webhook.Endpoint, error) {
	return s.Store.Endpoint(v.Context(), v.MerchantID(), v.Mode, v.ID())
}

// showWebhook serves GET /{mode}/webhooks/{id}.
func (s *server) showWebhook(v visit) (answer, error) {
	e, err := s.endpoint(v)
	if err != nil {
		return answer{}, err
	}
	health, err := s.Store.EndpointHealth(v.Context(), v.MerchantID(), v.Mode, healthWindow)
	if err != nil {
		return answer{}, err
	}
	rows, err := s.deliveryRows(v, storage.DeliveryFilter{EndpointID: e.ID}, storage.Page{Limit: recentDeliveries})
	if err != nil {
		return answer{}, err
	}
	types := slices.Clone(e.Events)
	for _, typ := range webhook.EventTypes {
		if !slices.Contains(types, typ) {
			types = append(types, typ)
		}
	}
	return show("webhook", "Webhook", webhookPage{Endpoint: e, Health: health[e.ID], Deliveries: rows, Overlaps: overlaps, Types: types})
}

// editWebhook serves GET /{mode}/webhooks/{id}/edit.
func (s *server) editWebhook(v visit) (answer, error) {
	e, err := s.endpoint(v)
	if err != nil {
		return answer{}, err
	}
	f := webhookForm{ID: e.ID, URL: e.URL, Events: e.Events}
	if e.Description != nil {
		f.Description = *e.Description
	}
	return show("webhook_form", "Change the webhook", f)
}

var (
	webhookChanged = notice("webhook_changed", "The webhook was changed. Attempts to come of its pending deliveries follow it.")
	webhookHeld    = notice("webhook_held", "The webhook is on hold. Its events are kept, and no attempt is used up.")
	webhookResumed = notice("webhook_resumed", "The webhook is enabled. What waited for it is being sent.")
	webhookDeleted = notice("webhook_deleted", "The webhook was deleted, and its pending deliveries are canceled.")
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
	change := storage.EndpointChange{URL: &f.URL, Events: f.Events, Description: &f.Description, ClearDescription: f.Description == ""}
	detail := "URL, events or description"
	if e.URL != f.URL {
		detail = "to " + hostOf(f.URL)
	}
	return s.endpointChanged(v, e, change, v.audit("webhook.changed", e.ID, detail), webhookChanged)
}

func (s *server) holdWebhook(v visit) (answer, error) {
	return s.setWebhookStatus(v, webhook.EndpointDisabled, "webhook.held", webhookHeld)
}

func (s *server) resumeWebhook(v visit) (answer, error) {
	return s.setWebhookStatus(v, webhook.EndpointEnabled, "webhook.resumed", webhookResumed)
}

func (s *server) setWebhookStatus(v visit, status webhook.EndpointStatus, what, notice string) (answer, error) {
	e, err := s.endpoint(v)
	if err != nil {
		return answer{}, err
	}
	return s.endpointChanged(v, e, storage.EndpointChange{Status: &status}, v.audit(what, e.ID, ""), notice)
}

func (s *server) endpointChanged(v visit, e webhook.Endpoint, c storage.EndpointChange, by checkout.AuditEntry, notice string) (answer, error) {
	if _, err := s.webhooks().ChangeEndpoint(v.Context(), e, c); err != nil {
		return answer{}, err
	}
	return s.audited(v, by, v.Path("/webhooks/"+e.ID), notice)
}

// audited notes what was done and goes to where it is seen.
func (s *server) audited(v visit, by checkout.AuditEntry, path, notice string) (answer, error) {
	if err := s.Store.Audit(v.Context(), by); err != nil {
		return answer{}, err
	}
	return goTo(path, notice)
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
		typ = e.Events[0] // there is always one
	}
	merchant, err := s.Store.Merchant(v.Context(), v.MerchantID())
	if err != nil {
		return answer{}, err
	}
	_, d, err := s.webhooks().PublishTest(v.Context(), storage.TestEvent{
		MerchantID: e.MerchantID, Mode: e.Mode, EndpointID: e.ID, SubjectID: checkout.NewID(checkout.PrefixTest), Type: typ,
		Data: func(at time.Time) any { return webhook.Sample(typ, merchant, json.RawMessage("{}"), at) },
	})
	if err != nil {
		return answer{}, err
	}
	return s.audited(v, v.audit("webhook.tested", e.ID, string(typ)), v.Path("/deliveries/"+d.ID), testSent)
}

// rotateSecret serves POST /{mode}/webhooks/{id}/rotate. Only its answer has the
// new secret.
func (s *server) rotateSecret(v visit) (answer, error) {
	hours, err := strconv.Atoi(v.PostFormValue("hours"))
	if err != nil || !slices.ContainsFunc(overlaps, func(o overlap) bool { return o.Hours == hours }) {
		hours = overlaps[0].Hours
	}
	e, err := s.Store.RotateSecret(v.Context(), v.MerchantID(), v.Mode, v.ID(), webhook.NewSecret(), time.Duration(hours)*time.Hour,
		v.audit("webhook.secret_rotated", v.ID(), fmt.Sprintf("the one before signs for %d h more", hours)))
	if err != nil {
		return answer{}, err
	}
	return show("webhook_secret", "The signing secret", secretShown{e, false})
}

// deletePage asks before a registration is deleted.
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
	pending, err := s.Store.CountPending(v.Context(), v.MerchantID(), v.Mode, e.ID)
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
	if err := s.webhooks().DeleteEndpoint(v.Context(), e); err != nil {
		return answer{}, err
	}
	return s.audited(v, v.audit("webhook.deleted", e.ID, "for "+hostOf(e.URL)), v.Path("/webhooks"), webhookDeleted)
}
