// Package workflows tells the durable stories of the service. It is
// deterministic and does no I/O of its own; activities do. Its inputs carry
// ids, times and enums only, because Temporal's UI shows them in plain text.
package workflows

import (
	"go.temporal.io/sdk/temporal"

	"example.com/checkout/workflows/checkout"
)

// Deployment is the name of the workers as a Temporal worker deployment, whose
// versions are builds.
const Deployment = "checkout"

// Task queues, named for the work they hold. Deliveries have their own, so that
// slow receivers never take the slots that finish sessions.
const (
	TaskQueueCheckout = "checkout"
	TaskQueueWebhooks = "webhooks"
)

// Workflow types as registered. Workflow ids are the public ids of what they
// are about: cs_…, po_…, whd_…, whr_…, evt_….
const (
	TypeCheckoutSession = "CheckoutSession"
	TypePayout          = "Payout"
	TypeWebhookDelivery = "WebhookDelivery"
	TypeWebhookReplay   = "WebhookReplay"
	TypeMerchantUpdate  = "MerchantUpdate"
	TypeReconcile       = "Reconcile"
	TypeRetention       = "Retention"
)

// Messages of CheckoutSession. An update is answered with the outcome; the
// signals of the same names are for operators and card processors, who do not
// wait for one.
const (
	UpdatePay      = "pay"
	UpdateExpire   = "expire"
	UpdateComplete = "complete"
	UpdateAdvance  = "advance" // the test-mode clock; no signal
	SignalExpire   = "expire"
	SignalComplete = "complete"
	QueryStatus    = "status"
)

// Signals of WebhookDelivery.
const (
	SignalRetryNow = "retry_now" // the next attempt now
	SignalResume   = "resume"    // a parked delivery is on hold no longer
)

// Error types on the wire.
const (
	ErrTypeSessionNotPending         = string(checkout.RefusedNotPending)
	ErrTypePaymentInFlight           = string(checkout.RefusedPaymentInFlight)
	ErrTypePaymentNotFound           = string(checkout.RefusedPaymentNotFound)
	ErrTypeDeliveryPermanentlyFailed = "DeliveryPermanentlyFailed"
	ErrTypeDeliveryWithoutRow        = "DeliveryWithoutRow"
	ErrTypePayoutWithoutRow          = "PayoutWithoutRow"
)

// Search attributes, registered by what deploys the namespace. SessionStatus is
// that of a closed session; an open one may be decided already. A delivery that
// ended well is Completed; DeliveryStatus marks the others.
var (
	SearchAttributeMerchantID     = temporal.NewSearchAttributeKeyKeyword("MerchantId")
	SearchAttributeMode           = temporal.NewSearchAttributeKeyKeyword("CheckoutMode") // "Mode" is a keyword of Temporal's query language
	SearchAttributeSessionStatus  = temporal.NewSearchAttributeKeyKeyword("SessionStatus")
	SearchAttributeEventType      = temporal.NewSearchAttributeKeyKeyword("EventType")
	SearchAttributeDeliveryStatus = temporal.NewSearchAttributeKeyKeyword("DeliveryStatus")
)

// SearchAttributes lists every search attribute; all are keywords.
var SearchAttributes = []temporal.SearchAttributeKeyKeyword{
	SearchAttributeMerchantID, SearchAttributeMode, SearchAttributeSessionStatus,
	SearchAttributeEventType, SearchAttributeDeliveryStatus,
}

// SearchAttributesOf returns the owner's and the given attributes.
func SearchAttributesOf(owner checkout.Owner, more ...temporal.SearchAttributeUpdate) temporal.SearchAttributes {
	return temporal.NewSearchAttributes(append(more,
		SearchAttributeMerchantID.ValueSet(owner.MerchantID), SearchAttributeMode.ValueSet(string(owner.Mode)))...)
}
