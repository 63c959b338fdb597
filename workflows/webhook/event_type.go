package webhook

import (
	"encoding/json"
	"slices"
	"time"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
)

// EventType names what happened. Source: api/interface.md, "Event types", and api/decisions/webhooks.md, "opt-in
// events".
type EventType string

// Event types. Each has a row in kinds.
const (
	CheckoutCompleted EventType = "checkout.completed"
	CheckoutFailed    EventType = "checkout.failed"
	PayoutSent        EventType = "payout.sent"
	PayoutFailed      EventType = "payout.failed"
	MerchantUpdated   EventType = "merchant.updated"
	RefundSucceeded   EventType = "refund.succeeded"
	RefundFailed      EventType = "refund.failed"
	DisputeOpened     EventType = "dispute.opened"
	DisputeClosed     EventType = "dispute.closed"
	PayoutReduced     EventType = "payout.reduced"
)

// kind is everything that the service says of an event type. Its values have no names of fields, so a new
// field does not compile until each event type has it.
type kind struct {
	typ       EventType
	words     string // when it comes, for people
	schema    string // of its envelope in api/openapi.yaml
	ofSession bool   // its data has a session's metadata
	optIn     bool   // not in the interface document; a session's own address never gets it
	sample    sampler
}

// A sampler makes the data of a test event.
type sampler func(m merchant.Merchant, metadata json.RawMessage, at time.Time) any

// kinds holds every event type: those of the interface document in its order, then the others. Append a new one: the
// first is the default type of a test event. api.TestEventTypes_WhateverListsThemHasThemAll compares every other list
// with this table.
var kinds = [...]kind{
	{CheckoutCompleted, "A customer paid.", "CheckoutCompleted", true, false, sampleTransaction("")},
	{CheckoutFailed, "A payment attempt failed: declined, blocked as fraud, or 3-D Secure abandoned.",
		"CheckoutFailed", true, false, sampleTransaction(checkout.FailureCardDeclined)},
	{PayoutSent, "Your crypto payout was sent to the network.", "PayoutSent", true, false, samplePayout("")},
	{PayoutFailed, "A payout could not be made: the network refused it, the address is not valid," +
		" it is currently too large to send, or nothing was left of it.",
		"PayoutFailed", true, false, samplePayout(checkout.PayoutNetworkError)},
	{MerchantUpdated, "Your settings changed, such as a payout address or the plan.",
		"MerchantUpdated", false, false, sampleMerchantUpdate},
	{RefundSucceeded, "A refund was made to the customer's card.",
		"RefundSucceeded", true, true, sampleRefund(checkout.RefundSucceeded)},
	{RefundFailed, "A refund did not reach the customer: the card network refused it, or the bank returned it.",
		"RefundFailed", true, true, sampleRefund(checkout.RefundFailed)},
	{DisputeOpened, "A customer disputed a payment at the bank.",
		"DisputeOpened", true, true, sampleDispute(checkout.DisputeNeedsResponse)},
	{DisputeClosed, "A dispute was won or lost.", "DisputeClosed", true, true, sampleDispute(checkout.DisputeLost)},
	{PayoutReduced, "A payout pays less, because of a refund, a dispute or what you owe.",
		"PayoutReduced", true, true, sampleReducedPayout},
}

// EventTypes lists every event type in the order of kinds.
var EventTypes = func() (all []EventType) {
	for _, k := range kinds {
		all = append(all, k.typ)
	}
	return all
}()

// AllEvents, alone in the list of an endpoint, stands for every event type, also those to come.
const AllEvents EventType = "*"

// Valid reports whether t is one of EventTypes.
func (t EventType) Valid() bool { return slices.Contains(EventTypes, t) }

// kind returns the row of t. The row of an event type that only a newer build has is empty.
func (t EventType) kind() kind {
	if i := slices.Index(EventTypes, t); i >= 0 {
		return kinds[i]
	}
	return kind{}
}

// Words describes when an event of type t comes, or is "" when t is not valid.
func (t EventType) Words() string { return t.kind().words }

// Schema names the schema of the envelope in api/openapi.yaml. t is valid.
func (t EventType) Schema() string { return t.kind().schema }

// OfSession reports whether the data has the metadata of a session. t is valid.
func (t EventType) OfSession() bool { return t.kind().ofSession }

// OptIn reports whether only registrations get t, those that name it or list AllEvents, and also for a session with its
// own address. Source: api/decisions/webhooks.md, "opt-in events".
func (t EventType) OptIn() bool { return t.kind().optIn }

// Sample returns the data of a test event for m. It has every member of a real event. It is always of test mode,
// so that no shop ships goods because of it. t is valid.
func (t EventType) Sample(m merchant.Merchant, metadata json.RawMessage, at time.Time) any {
	return t.kind().sample(m, metadata, at)
}
