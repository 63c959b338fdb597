package checkout

import (
	"encoding/json"
	"time"

	"example.com/checkout/workflows/money"
)

// RefundStatus is the state of a refund.
type RefundStatus string

// A refund is pending until the network has decided. One that succeeded may fail later: the customer's bank
// returns it. A failed one stays failed.
const (
	RefundPending   RefundStatus = "pending"
	RefundSucceeded RefundStatus = "succeeded"
	RefundFailed    RefundStatus = "failed"
)

// RefundStatuses lists every state of a refund.
var RefundStatuses = []RefundStatus{RefundPending, RefundSucceeded, RefundFailed}

// RefundOrigin is who ordered a refund.
type RefundOrigin string

// Origins of a refund.
const (
	RefundByMerchant RefundOrigin = "merchant"
	RefundByOperator RefundOrigin = "operator"
	RefundUnmatched  RefundOrigin = "unmatched" // the service: no completed session stands behind the charge
)

// RefundReason is why a merchant gives the money back. The card network gets it.
type RefundReason string

// Reasons of a merchant's refund.
const (
	RefundRequested  RefundReason = "requested_by_customer"
	RefundDuplicate  RefundReason = "duplicate"
	RefundFraudulent RefundReason = "fraudulent"
)

// RefundReasons lists every reason of a merchant's refund.
var RefundReasons = []RefundReason{RefundRequested, RefundDuplicate, RefundFraudulent}

// Refund gives back to the card a part of a charge, or all of it. Merchants see the refunds of their payments. The
// charge of a refund of the service may belong to no transaction.
type Refund struct {
	Ref // re_…

	SessionID     string
	TransactionID string // "" when the charge belongs to no transaction
	Reference     string // the card network's name of the charge
	Origin        RefundOrigin
	Reason        RefundReason // "" when the merchant gave none
	Status        RefundStatus
	Amount        money.Amount // to the customer
	Currency      money.Currency
	FeeReturned   money.Amount // what the merchant gets back of the payment's fee
	NetworkRef    string       // the card network's name of the refund; "" before it is known
	Metadata      json.RawMessage
	CreatedAt     time.Time
	EndedAt       *time.Time // when it succeeded or failed last
}

// RefundFailure says why a refund failed. Source: api/decisions/objects.md, "refund".
type RefundFailure string

// Reasons of a failed refund.
const (
	RefundRefused  RefundFailure = "refused"  // the card network did not take it
	RefundReturned RefundFailure = "returned" // the customer's bank did not take it
)

var refundFailureMessages = map[RefundFailure]string{
	RefundRefused:  "The card network refused the refund.",
	RefundReturned: "The customer's bank returned the refund.",
}

// Failure returns why the refund failed, "" when it has not.
func (r Refund) Failure() RefundFailure {
	switch {
	case r.Status != RefundFailed:
		return ""
	case r.NetworkRef == "":
		return RefundRefused
	}
	return RefundReturned
}

// MarshalJSON writes the refund object of refund.* events and of the REST API. Source: api/decisions/objects.md,
// "refund".
func (r Refund) MarshalJSON() ([]byte, error) {
	type failure struct {
		Code    RefundFailure `json:"code"`
		Message string        `json:"message"`
	}
	var f *failure
	if code := r.Failure(); code != "" {
		f = &failure{code, refundFailureMessages[code]}
	}
	return EncodeJSON(struct {
		ID            string          `json:"id"`
		SessionID     string          `json:"session_id"`
		TransactionID string          `json:"transaction_id"`
		Status        RefundStatus    `json:"status"`
		Amount        money.Amount    `json:"amount"`
		Currency      money.Currency  `json:"currency"`
		FeeReturned   money.Amount    `json:"fee_returned"`
		Reason        *string         `json:"reason"`
		Failure       *failure        `json:"failure"`
		Metadata      json.RawMessage `json:"metadata"`
		Livemode      bool            `json:"livemode"`
		CreatedAt     string          `json:"created_at"`
		CompletedAt   *string         `json:"completed_at"`
	}{
		ID: r.ID, SessionID: r.SessionID, TransactionID: r.TransactionID, Status: r.Status, Amount: r.Amount,
		Currency: r.Currency, FeeReturned: r.FeeReturned, Reason: orNull(string(r.Reason)), Failure: f,
		Metadata: r.Metadata, Livemode: r.Mode.Live(), CreatedAt: FormatTime(r.CreatedAt),
		CompletedAt: FormatOptionalTime(r.EndedAt),
	})
}

// RefundRequest describes a refund for the card network.
type RefundRequest struct {
	ID        string // re_…, the idempotency key
	Reference string // the network's name of the charge
	Amount    money.Amount
	Reason    RefundReason // "" for none
}

// RefundResult is the network's answer about one refund.
type RefundResult struct {
	Status    RefundStatus
	Reference string       // the network's name of the refund; "" when it was refused
	Amount    money.Amount // that goes back to the customer; 0 when it was refused
	Why       string       // the network's word for a failure
}
