package contract

import (
	"cmp"
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// WebhookDeliveryInput names the delivery. The activities read address and body from PostgreSQL,
// so a new run with the same input is a replay.
type WebhookDeliveryInput struct {
	checkout.Ref

	EventType  webhook.EventType `json:"event_type"`
	EndpointID string            `json:"endpoint_id,omitempty"`
	Host       string            `json:"host"` // the address's host, shown to operators
	// Continued is set when this run takes over from a run with a long history. If it is nil,
	// the run begins with attempt 1.
	Continued *ContinuedDelivery `json:"continued,omitempty"`
}

// NewWebhookDeliveryInput returns the input of a WebhookDelivery.
func NewWebhookDeliveryInput(owner checkout.Owner, typ webhook.EventType, ref webhook.Dispatch) WebhookDeliveryInput {
	return WebhookDeliveryInput{Ref: owner.Ref(ref.ID), EventType: typ, EndpointID: ref.EndpointID, Host: ref.Host}
}

// ContinuedDelivery is the state that a run takes over from an earlier one.
type ContinuedDelivery struct {
	RunID        string `json:"run_id"`         // Temporal's run that began the run of the delivery's log
	AttemptsMade int    `json:"made,omitempty"` // attempts so far
}

// WebhookDeliveryResult is the result of a run that did not fail.
type WebhookDeliveryResult struct {
	// Status is delivered or canceled. A replay whose endpoint was deleted keeps the earlier status.
	Status webhook.DeliveryStatus `json:"status"`
}

// Summary returns the text of the run in the lists of Temporal's UI.
func (in WebhookDeliveryInput) Summary() string { return string(in.EventType) + " to " + in.Receiver() }

// Details returns the text of the run on its page in Temporal's UI. It is fixed when the run starts: while a
// local activity runs, the history gets no event that could say so.
func (in WebhookDeliveryInput) Details() string {
	return fmt.Sprintf("Attempt 1 is a local activity of the first workflow task. While the history ends with "+
		"WorkflowTaskStarted, this attempt is under way. Attempts 2 to %d are shown under Pending Activities.",
		webhook.MaxAttempts)
}

// Receiver returns who gets the event: several registrations may have the same host.
func (in WebhookDeliveryInput) Receiver() string {
	return in.Host + " (" + cmp.Or(in.EndpointID, "webhook_url of the session") + ")"
}

// SearchAttribute returns the event type: operators can search for it as well as for the owner.
func (in WebhookDeliveryInput) SearchAttribute() temporal.SearchAttributeUpdate {
	return SearchAttributeEventType.ValueSet(string(in.EventType))
}

// SendAttemptResult is the result of a turn without a failed attempt. If the status is pending,
// Reason says why no attempt was made. Otherwise the delivery has ended.
type SendAttemptResult struct {
	DeliveryState
	// The receiver accepted this attempt; RecordAttempt must note it.
	Unrecorded *AttemptResult `json:"unrecorded,omitempty"`
	Reason     Reason         `json:"reason,omitempty"`
	Wait       time.Duration  `json:"wait,omitempty"` // time until the next try; set with ReasonBusy and ReasonEarly
	// Due is when the attempt became due, if it has waited for its busy endpoint.
	Due   time.Time `json:"due,omitzero"`
	Ahead int       `json:"ahead,omitempty"` // about how many attempts come first; set with ReasonBusy
}

// DeliveryState is the state of a delivery after an activity.
type DeliveryState struct {
	Status       webhook.DeliveryStatus `json:"status"`           // pending: the delivery goes on
	RunID        string                 `json:"run_id,omitempty"` // Temporal's run of the log's last run; "": none
	AttemptsMade int                    `json:"made,omitempty"`   // of the run so far; only while pending
}

// AttemptResult is an attempt without the receiver's answer.
type AttemptResult struct {
	Run        int           `json:"run"`
	Number     int           `json:"number"`
	StatusCode int           `json:"status_code,omitempty"`
	Duration   time.Duration `json:"duration"`
}

// Reason says why SendAttempt made no attempt. The run keeps all its remaining attempts. Every other reason for which a
// delivery waits is in deploy/release/README.md, "Why a delivery waits".
type Reason string

// Reasons.
const (
	ReasonHeld  Reason = "on hold"            // until the signal resume
	ReasonBusy  Reason = "busy endpoint"      // the endpoint has as many attempts under way as it may
	ReasonEarly Reason = "not due"            // the attempt came before its time
	ReasonReset Reason = "activity reset"     // by an operator: a new run of the log begins
	ReasonAway  Reason = "PostgreSQL is away" // or another fault: an attempt that cannot be noted is not sent
)

// Details returns the reason in words for Temporal's UI.
func (r SendAttemptResult) Details() string {
	switch r.Reason {
	case ReasonAway:
		return "the attempt cannot be noted: PostgreSQL is away, or a master key is missing; the worker's log says which"
	case ReasonBusy:
		return fmt.Sprintf("%s: waits for a place, about %d attempts come first", r.Reason, r.Ahead)
	}
	return string(r.Reason)
}

// AttemptLost is the text for operators of an attempt whose worker died.
const AttemptLost = "the worker died"
