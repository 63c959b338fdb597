package action

import (
	"fmt"
	"net/http"

	"example.com/checkout/api/limit"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// Entry returns the audit log's entry for an action of actor in request r. subject is the id of the
// changed object. detail is a text without secrets.
func Entry(r *http.Request, merchantID, actor, what, subject, detail string) checkout.AuditEntry {
	return checkout.AuditEntry{
		ID: checkout.NewID(checkout.PrefixAuditEntry), MerchantID: merchantID, Actor: actor,
		Action: what, Subject: subject, Detail: detail, Address: limit.RemoteIP(r),
	}
}

// RotationDetail says how long the previous secret still signs.
func RotationDetail(hours int) string {
	if hours == 0 {
		return "the previous secret stops at once"
	}
	return fmt.Sprintf("the previous secret signs for %d h more, unless another rotation ends it", hours)
}

// DeliveryDetail names the event's type and the receiver's host. It leaves out the path, which may
// be a secret.
func DeliveryDetail(d webhook.Delivery) string {
	return string(d.EventType) + " to " + webhook.HostPortOf(d.URL)
}

// ReplayDetail names the deliveries of a bulk replay. A reader sees their number before this text.
func ReplayDetail(r webhook.Replay) string {
	return fmt.Sprintf(
		"%s deliveries of %s, %s to %s", r.Filter, r.EndpointID, checkout.FormatTime(r.Since),
		checkout.FormatTime(r.Until),
	)
}
