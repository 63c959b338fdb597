package contract

import "example.com/checkout/workflows/checkout"

// Error types that refuse a message of a session. Activities end with them too.
const (
	ErrTypeSessionNotPending  = string(checkout.RefusedNotPending)
	ErrTypePaymentInFlight    = string(checkout.RefusedPaymentInFlight)
	ErrTypePaymentNotFound    = string(checkout.RefusedPaymentNotFound)
	ErrTypePaymentNotPossible = string(checkout.RefusedNotPossible)
)

// Error types that end a run.
const (
	ErrTypeDeliveryPermanentlyFailed = "DeliveryPermanentlyFailed"
	ErrTypeDeliveryWithoutRow        = "DeliveryWithoutRow"
	ErrTypePayoutWithoutRow          = "PayoutWithoutRow"
)

// Error types that end an activity. Temporal never retries them.
const (
	ErrTypeSessionNotFound  = "SessionNotFound"
	ErrTypePaymentUndecided = "PaymentUndecided"
	ErrTypePayoutNotFound   = "PayoutNotFound"
	ErrTypeRefundNotFound   = "RefundNotFound"
	ErrTypeDeliveryNotFound = "DeliveryNotFound"
	ErrTypeReplayNotFound   = "ReplayNotFound"
	// ErrTypePayoutTakesLonger: a real chain takes longer than a workflow task may. The workflow then starts a Payout.
	ErrTypePayoutTakesLonger = "PayoutTakesLonger"
	// ErrTypePaymentUnknownToNetwork: the card network does not know the charge or the card.
	ErrTypePaymentUnknownToNetwork = "PaymentUnknownToNetwork"
)

// Error types after which Temporal tries again, at the time in the error.
const (
	ErrTypeReceiverRefused = "ReceiverRefused" // an attempt failed
	ErrTypePictureAway     = "PictureAway"
)
