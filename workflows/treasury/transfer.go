package treasury

import (
	"errors"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
)

// ErrAwaitsBatch means that a round of TreasurySync signs the payout's transfer, together with others.
var ErrAwaitsBatch = errors.New("the payout waits for its batch")

// TransferOutcome says what became of a payout. Failure and Held are empty when it was sent. Histories hold it.
type TransferOutcome struct {
	Failure checkout.PayoutFailure `json:"failure,omitempty"` // it failed for good, before anything was signed
	Held    checkout.PayoutHold    `json:"held,omitempty"`    // it waits; Reconcile starts it again
	// Generation of the payout that this is about. A run that goes on after a retry must not decide the
	// retried payout by it.
	Generation int `json:"generation,omitempty"`
}

// TransferRequest asks a network for the transfer of a payout. PayoutID is the idempotency key.
type TransferRequest struct {
	PayoutID    string
	Destination string
	Gross       money.Crypto // before the network's fee
	FeeRate     money.Rate   // the currency of Gross for one unit of the chain's own currency
	// Burnt is what earlier transfers of the payout cost that were reverted, in the chain's own currency. The payout
	// pays for it.
	Burnt money.Crypto
}

// SandboxTransfer is a signed transfer of the sandbox's chain. It is stored before or as it is sent, so a repeat
// sends the same bytes. On a real chain it is a TransferVersion.
type SandboxTransfer struct {
	Signed []byte
	TxHash string
	Amount money.Crypto           // after the fee; none when Failed
	Fee    money.Crypto           // none when Failed
	Failed checkout.PayoutFailure // set when the network refuses to sign: nothing was or will be sent
}
