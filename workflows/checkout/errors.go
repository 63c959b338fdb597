package checkout

import (
	"errors"
	"fmt"
	"time"

	"example.com/checkout/workflows/money"
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
	// ErrChargeRefused: the card network understands the request for a charge and refuses it, as with a wrong key
	// or a fault of ours. Nothing was charged.
	ErrChargeRefused = errors.New("the card network refuses the charge")
	// ErrPaymentNotPossible: there is no exchange rate at present, or the amount could not be paid out. Nothing
	// was charged.
	ErrPaymentNotPossible = errors.New("no payment is possible now")
	// ErrPaymentExists: a payment with this id exists already.
	ErrPaymentExists = errors.New("payment exists")
	// ErrOrderIDInUse: a pending or completed session has the same order id.
	ErrOrderIDInUse = errors.New("order id in use")
	// ErrAPIKey: the API key is missing, malformed, unknown or revoked.
	ErrAPIKey = errors.New("invalid api key")
	// ErrMerchantSuspended: an operator has suspended what the call needs of the merchant.
	ErrMerchantSuspended = errors.New("merchant is suspended")
	// ErrConflict: the thing is not in the state that the call needs. The next ones are kinds of it.
	ErrConflict = errors.New("conflict")
	// ErrPayoutNotFailed: only a failed payout can be retried.
	ErrPayoutNotFailed = fmt.Errorf("%w: the payout has not failed", ErrConflict)
	// ErrDisputeOpen: the card network refunds nothing of a charge while a dispute of it is open.
	ErrDisputeOpen = fmt.Errorf("%w: a dispute of the charge is open", ErrConflict)
	// ErrDisputeNotOpen: the bank takes no evidence about the dispute, or none any more.
	ErrDisputeNotOpen = fmt.Errorf("%w: the bank takes no evidence about the dispute", ErrConflict)
	// ErrEvidenceSubmitted: evidence is sent once.
	ErrEvidenceSubmitted = fmt.Errorf("%w: evidence about the dispute is submitted", ErrConflict)
	// ErrTransferStands: a signed transfer of the payout may still pay it.
	ErrTransferStands = fmt.Errorf("%w: a transfer of the payout may still pay it", ErrConflict)
	// ErrNotPaid: the session has no payment that succeeded.
	ErrNotPaid = fmt.Errorf("%w: the session is not paid", ErrConflict)
	// ErrRefundPending: the card network makes one refund of a charge at a time.
	ErrRefundPending = fmt.Errorf("%w: another refund of the payment is pending", ErrConflict)
	// ErrNothingLeft: the payout paid what the merchant owed.
	ErrNothingLeft = fmt.Errorf("%w: nothing is left of the payout", ErrConflict)
	// ErrPaymentRefunded: the customer gets the money back, so the merchant does not get it.
	ErrPaymentRefunded = fmt.Errorf("%w: the payment of the payout is refunded", ErrConflict)
)

// RefundTooLargeError means that a refund is larger than what is left of its payment. It is a kind of ErrConflict.
type RefundTooLargeError struct {
	Left     money.Amount
	Currency money.Currency
}

func (e *RefundTooLargeError) Error() string {
	return fmt.Sprintf("%s %s are left of the payment", e.Left, e.Currency)
}

// Unwrap returns ErrConflict.
func (e *RefundTooLargeError) Unwrap() error { return ErrConflict }

// InsufficientBalanceError means that a merchant would owe more than it may. It is a kind of ErrConflict.
type InsufficientBalanceError struct {
	Missing  money.Amount
	Currency money.Currency
}

func (e *InsufficientBalanceError) Error() string {
	return fmt.Sprintf("%s %s are missing", e.Missing, e.Currency)
}

// Unwrap returns ErrConflict.
func (e *InsufficientBalanceError) Unwrap() error { return ErrConflict }

// AddressRevertedError means that the network reverted a transfer of a payout to the merchant's payout address.
// A retry burns gas again, so it needs another address. It is a kind of ErrConflict.
type AddressRevertedError struct {
	Address   string
	ChangesAt *time.Time // when an announced change of the address holds; nil when none is announced
}

func (e *AddressRevertedError) Error() string {
	return "the network reverted a transfer to " + e.Address + ". " + e.Advice()
}

// Advice is the merchant's next step, in whole sentences.
func (e *AddressRevertedError) Advice() string {
	if e.ChangesAt != nil {
		return "The payout address changes at " + FormatTime(*e.ChangesAt) + ". Retry the payout then."
	}
	return "Set another payout address in the dashboard's settings. Retry the payout once the change takes effect."
}

// Unwrap returns ErrConflict.
func (e *AddressRevertedError) Unwrap() error { return ErrConflict }

// Wrap adds to the error of a function what it was doing: defer Wrap(&err, "look at %s", name).
func Wrap(err *error, format string, args ...any) {
	if *err != nil {
		*err = fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), *err)
	}
}
