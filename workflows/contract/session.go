package contract

import (
	"time"

	"example.com/checkout/workflows/checkout"
)

// ActionTimeout is how long a customer has for 3-D Secure. After it the payment is given up.
const ActionTimeout = 10 * time.Minute

// CheckoutSessionInput holds every time and limit of the session. A change of configuration
// therefore never alters a running session.
type CheckoutSessionInput struct {
	checkout.Ref

	ExpiresAt     time.Time     `json:"expires_at"`
	ActionTimeout time.Duration `json:"action_timeout"` // how long a customer may take over 3-D Secure
	// PaymentID is the transaction id of a payment that was in flight when an earlier run was
	// lost; "" when there was none.
	PaymentID string `json:"payment_id,omitempty"`
}

// CheckoutSessionResult is the final status of the session.
type CheckoutSessionResult struct {
	Status checkout.Status `json:"status"` // "" when the creation was rolled back: the merchant never got the session
}

// PayInput and CompleteInput are the inputs of the updates pay and complete.
type (
	PayInput struct {
		TransactionID string `json:"transaction_id"`
	}
	CompleteInput struct {
		TransactionID string `json:"transaction_id"`
	}
)

// PaymentResult answers pay and complete.
type PaymentResult struct {
	Outcome checkout.PaymentOutcome `json:"outcome"`
	Failure checkout.FailureCode    `json:"failure,omitempty"`
	Status  checkout.Status         `json:"status"` // of the session
}

// SessionState answers the query status and the updates expire and advance.
type SessionState struct {
	Status          checkout.Status `json:"status"`
	PaymentInFlight bool            `json:"payment_in_flight"`
}
