package contract

import (
	"time"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// PayoutResult says how the payout ended.
type PayoutResult struct {
	Failure checkout.PayoutFailure `json:"failure,omitempty"` // "" when the payout was sent, or when it waits
	Held    checkout.PayoutHold    `json:"held,omitempty"`    // why the payout waits
}

// RefundResult says how a run of a refund ended.
type RefundResult struct {
	Status checkout.RefundStatus `json:"status"`
	Waits  RefundWaits           `json:"waits,omitempty"` // why a pending refund is followed by a later run
}

// RefundWaits is why a refund is pending.
type RefundWaits string

// Reasons of a pending refund.
const (
	RefundWaitsBank     RefundWaits = "bank"     // the card network has it, and the bank has not decided
	RefundWaitsNetwork  RefundWaits = "network"  // the card network did not answer
	RefundWaitsTreasury RefundWaits = "treasury" // the chain may have paid the merchant
)

// EvidenceResult says how a run that sends evidence ended.
type EvidenceResult struct {
	Failure checkout.EvidenceFailure `json:"failure,omitempty"`
	Waits   bool                     `json:"waits,omitempty"` // the card network did not answer: a later run sends it
}

// WebhookReplayResult says how a bulk replay ended.
type WebhookReplayResult struct {
	Status  webhook.ReplayStatus `json:"status"` // completed or canceled
	Started int                  `json:"started"`
	Skipped int                  `json:"skipped"`
}

// RetentionInput holds the ages at which old rows are deleted. 0 means never, except for Age.
type RetentionInput struct {
	Age     time.Duration `json:"age"` // of finished deliveries
	Session time.Duration `json:"session,omitempty"`
	Audit   time.Duration `json:"audit,omitempty"`
	Sandbox time.Duration `json:"sandbox,omitempty"`
	Request time.Duration `json:"request,omitempty"` // of the log of API requests
}

// ModeInput is the input of TreasurySync and Books.
type ModeInput struct {
	Mode checkout.Mode `json:"mode"`
}

// RunRequest has what starts the run of a row.
type RunRequest struct {
	// of a session, payout, refund, dispute, delivery, bulk replay, picture or event; its id is the workflow id
	checkout.Ref

	ExpiresAt  time.Time         // of a session
	PaymentID  string            // of a session's payment in flight
	EventType  webhook.EventType // of a delivery
	EndpointID string            // of a delivery or bulk replay
	Host       string            // of a delivery
}
