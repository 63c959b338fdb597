package action

import (
	"fmt"
	"net/http"
	"net/url"

	"example.com/checkout/api/limit"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// Entry is an entry of the audit log for what r asks for, in the name of actor.
// subject is the id of what it changes; detail is in words, without secrets.
func Entry(r *http.Request, merchantID, actor, what, subject, detail string) checkout.AuditEntry {
	return checkout.AuditEntry{
		ID: checkout.NewID(checkout.PrefixAuditEntry), MerchantID: merchantID, Actor: actor,
		Action: what, Subject: subject, Detail: detail, Address: limit.RemoteIP(r),
	}
}

// What the entries of some changes say, whichever way in they came.

// RotationDetail says what becomes of the secret before.
func RotationDetail(hours int) string {
	if hours == 0 {
		return "the secret before stops at once"
	}
	return fmt.Sprintf("the secret before signs for %d h more, unless another rotation ends it", hours)
}

// DeliveryDetail says what is sent where.
func DeliveryDetail(d webhook.Delivery) string { return string(d.EventType) + " to " + HostOf(d.URL) }

// ReplayDetail says what is sent again, to be read after how many that is.
func ReplayDetail(r webhook.Replay) string {
	return fmt.Sprintf("%s deliveries of %s, %s to %s", r.Filter, r.EndpointID, checkout.FormatTime(r.Since), checkout.FormatTime(r.Until))
}

// HostOf is the host of an address: what of it may be in the audit log, as a
// path can be a secret.
func HostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Host
}
