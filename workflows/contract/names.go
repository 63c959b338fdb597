// Package contract is what those who start, ask and search runs agree on with the workflows: names in
// Temporal, inputs and results. Inputs hold ids, times and enums only, because Temporal's UI shows them
// in plain text. Open runs have these names and this JSON in their histories.
package contract

import (
	"go.temporal.io/sdk/temporal"

	"example.com/checkout/workflows/checkout"
)

// Task queues, named after their work. Deliveries have a queue of their own, so slow receivers
// never take the slots of sessions.
const (
	TaskQueueCheckout = "checkout"
	TaskQueueWebhooks = "webhooks"
)

// Workflow types as registered. The workflow id is the public id of the session, payout, refund, dispute,
// delivery, bulk replay, event or picture: cs_…, po_…, re_…, dp_…, whd_…, whr_…, evt_…, pic_….
const (
	TypeCheckoutSession = "CheckoutSession"
	TypePayout          = "Payout"
	TypeRefund          = "Refund"
	TypeDisputeEvidence = "DisputeEvidence"
	TypeWebhookDelivery = "WebhookDelivery"
	TypeWebhookReplay   = "WebhookReplay"
	TypeMerchantUpdate  = "MerchantUpdate"
	TypePictureFetch    = "PictureFetch"
	TypeReconcile       = "Reconcile"
	TypeRetention       = "Retention"
	TypeTreasurySync    = "TreasurySync"
	TypeBooks           = "Books"
)

// Messages of CheckoutSession. An update is answered with the outcome. The signals of the same
// names are for operators and card processors, who do not wait for an outcome.
const (
	UpdatePay      = "pay"
	UpdateExpire   = "expire"
	UpdateComplete = "complete"
	UpdateAdvance  = "advance" // the clock of test mode; it has no signal
	SignalExpire   = "expire"
	SignalComplete = "complete"
	QueryStatus    = "status"
)

// Signals of WebhookDelivery.
const (
	SignalRetryNow = "retry_now" // make the next attempt now
	SignalResume   = "resume"    // a parked delivery is no longer on hold
)

// Search attributes. The deployment registers them in the namespace. SessionStatus is the status of a closed session;
// an open session may be decided already. A delivery that succeeded is Completed; DeliveryStatus marks the others.
var (
	SearchAttributeMerchantID = temporal.NewSearchAttributeKeyKeyword("MerchantId")
	// "Mode" is a keyword of Temporal's query language.
	SearchAttributeMode           = temporal.NewSearchAttributeKeyKeyword("CheckoutMode")
	SearchAttributeSessionStatus  = temporal.NewSearchAttributeKeyKeyword("SessionStatus")
	SearchAttributeEventType      = temporal.NewSearchAttributeKeyKeyword("EventType")
	SearchAttributeDeliveryStatus = temporal.NewSearchAttributeKeyKeyword("DeliveryStatus")
)

// SearchAttributes lists every search attribute; all are keywords.
var SearchAttributes = []temporal.SearchAttributeKeyKeyword{
	SearchAttributeMerchantID, SearchAttributeMode, SearchAttributeSessionStatus,
	SearchAttributeEventType, SearchAttributeDeliveryStatus,
}

// SearchAttributesOf returns the owner's attributes and more.
func SearchAttributesOf(owner checkout.Owner, more ...temporal.SearchAttributeUpdate) temporal.SearchAttributes {
	return temporal.NewSearchAttributes(append(more,
		SearchAttributeMerchantID.ValueSet(owner.MerchantID), SearchAttributeMode.ValueSet(string(owner.Mode)))...)
}
