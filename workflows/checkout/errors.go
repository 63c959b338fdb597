package checkout

import (
	"errors"
	"fmt"
)

// Errors that storage, workflows and the REST front end share. Compare them with errors.Is.
var (
	// ErrNotFound: the merchant has no such thing in this mode.
	ErrNotFound = errors.New("not found")
	// ErrWrongMode: the merchant owns the thing in the other mode.
	ErrWrongMode = errors.New("belongs to the other mode")
	// ErrNotPending: the session has ended, or its time is over.
	ErrNotPending = errors.New("session is not pending")
	// ErrPaymentInFlight: a payment of the session is being decided.
	ErrPaymentInFlight = errors.New("a payment is in flight")
	// ErrPaymentUndecided: no final outcome of the payment is stored.
	ErrPaymentUndecided = errors.New("payment is undecided")
	// ErrPaymentNotPossible: there is no exchange rate at present. Nothing was charged.
	ErrPaymentNotPossible = errors.New("no payment is possible at present")
	// ErrPaymentExists: a payment with this id exists already.
	ErrPaymentExists = errors.New("payment exists")
	// ErrOrderIDInUse: a pending or completed session has the same order id.
	ErrOrderIDInUse = errors.New("order id in use")
	// ErrAPIKey: the API key is missing, malformed, unknown or revoked.
	ErrAPIKey = errors.New("invalid api key")
	// ErrConflict: the thing is not in the state that the call needs. The next three are kinds of it.
	ErrConflict = errors.New("conflict")
	// ErrPayoutNotFailed: only a failed payout can be retried.
	ErrPayoutNotFailed = fmt.Errorf("%w: the payout has not failed", ErrConflict)
	// ErrChainAhead: the chain has transfers of the treasury that the database lacks; one may have paid the payout.
	ErrChainAhead = fmt.Errorf("%w: the chain knows transfers of the treasury that the database lacks", ErrConflict)
	// ErrTransferStands: a signed transfer of the payout may still pay it.
	ErrTransferStands = fmt.Errorf("%w: a transfer of the payout may still pay it", ErrConflict)
	// ErrPaymentRefunded: the customer gets the money back, so the merchant does not get it.
	ErrPaymentRefunded = fmt.Errorf("%w: the payment of the payout is refunded", ErrConflict)
)
