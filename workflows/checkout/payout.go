package checkout

import (
	"encoding/json"
	"math/big"
	"time"

	"example.com/checkout/workflows/money"
)

// PayoutStatus is the state of a payout.
type PayoutStatus string

// A payout is pending until the network accepts the transfer or refuses it for good.
const (
	PayoutPending PayoutStatus = "pending"
	PayoutSent    PayoutStatus = "sent"
	PayoutFailed  PayoutStatus = "failed"
)

// PayoutStatuses lists every state of a payout.
var PayoutStatuses = []PayoutStatus{PayoutPending, PayoutSent, PayoutFailed}

// PayoutFailure says why a payout failed. Source: api/decisions/objects.md, "payout".
type PayoutFailure string

// Reasons of a failed payout.
const (
	PayoutNetworkError          PayoutFailure = "network_error"
	PayoutInvalidAddress        PayoutFailure = "invalid_address"
	PayoutInsufficientLiquidity PayoutFailure = "insufficient_liquidity"
	PayoutRefunded              PayoutFailure = "refunded"  // nothing is left of the payment
	PayoutDisputed              PayoutFailure = "disputed"  // a dispute was lost
	PayoutRecovered             PayoutFailure = "recovered" // it paid what the merchant owed
)

var payoutFailureMessages = map[PayoutFailure]string{
	PayoutNetworkError:          "The network did not accept the transfer.",
	PayoutInvalidAddress:        "The payout address is not valid on this network.",
	PayoutInsufficientLiquidity: "The payout is currently too large to send.",
	PayoutRefunded:              "The payment was refunded.",
	PayoutDisputed:              "The customer's bank took the payment back.",
	PayoutRecovered:             "The payout was kept for what you owe.",
}

// Message is the human-readable text of the code.
func (f PayoutFailure) Message() string { return payoutFailureMessages[f] }

// Payout is the crypto payout of a completed session.
type Payout struct {
	Ref

	SessionID      string
	TransactionID  string
	Status         PayoutStatus
	Amount         money.Crypto // in Currency; none until a transfer is signed
	Currency       money.PayoutCurrency
	Network        string
	Destination    string
	SourceAmount   money.Amount
	SourceCurrency money.Currency
	Deducted       money.Amount  // of SourceAmount: the sum of Deductions
	Deductions     []Deduction   // oldest first
	ExchangeRate   money.Rate    // Currency for one unit of SourceCurrency
	LockedRate     money.Rate    // ExchangeRate when the customer paid
	RateUntil      *time.Time    // when the lock of the rate ends; nil: never
	Disputed       bool          // the charge was disputed, reported as fraud, or refunded outside, before or now
	Fee            money.Crypto  // in Currency; none until a transfer is signed
	TxHash         string        // "" until a transfer is signed, and after a failure
	Failure        PayoutFailure // of a pending payout: FinishPayout is to end it with this
	Metadata       json.RawMessage
	Generation     int             // the first is 1; a retry of a failed payout adds one
	Retried        []RetriedPayout // the generations before this one, oldest first
	Hold           PayoutHold      // why a pending payout is not sent at present; "" when nothing holds it
	NextActionAt   *time.Time      // when a payout on hold is tried again
	CreatedAt      time.Time
	SentAt         *time.Time
	ConfirmedAt    *time.Time // when the transfer was final on the chain
	FailedAt       *time.Time
}

// RateHolds reports whether a transfer that is signed at the time now has the payout's ExchangeRate; of a failed
// payout, the transfer after a retry. If not, it has the lower one of that and of the rate at the signature: else a
// merchant whose payout waits could choose the day with the best price. A payout that never failed waits for us,
// unless its charge is disputed, by a customer who may be the merchant. Source: api/README.md, "A payout that failed".
func (p Payout) RateHolds(now time.Time) bool {
	return p.RateUntil == nil || !now.After(*p.RateUntil) || p.Generation == 1 && p.Status != PayoutFailed && !p.Disputed
}

// DeductionType is why a payout pays less than its payment.
type DeductionType string

// Kinds of deductions.
const (
	DeductionRefund   DeductionType = "refund"
	DeductionDispute  DeductionType = "dispute"
	DeductionRecovery DeductionType = "recovery" // of what the merchant owed
	DeductionReserve  DeductionType = "reserve"  // kept for a time
)

// Deduction is a part of a payout's source amount that it does not pay.
type Deduction struct {
	Type DeductionType `json:"type"`
	// Source is the id of the refund, dispute or reserved payment; of a recovery, the currency of the debt.
	Source string       `json:"source"`
	Amount money.Amount `json:"amount"` // in the payout's source currency
	// Owed is what a recovery paid, in the currency of the debt; nil for the others.
	Owed *money.Amount `json:"owed,omitempty"`
}

// Net returns what is left of the source amount.
func (p Payout) Net() money.Amount { return p.SourceAmount - p.Deducted }

// Gross converts the net at the rate, before the network's fee. It rounds down to the smallest unit.
func (p Payout) Gross() money.Crypto {
	return money.FloorCrypto(new(big.Rat).Mul(p.Net().Coins(p.SourceCurrency), p.ExchangeRate.Rat()), p.Currency)
}

// RetriedPayout is a generation of a payout that failed and was retried.
type RetriedPayout struct {
	Destination string        `json:"destination"`
	Failure     PayoutFailure `json:"failure"`
	SentAt      *time.Time    `json:"sent_at"` // set when a network had its transfer, which then paid nothing
	FailedAt    time.Time     `json:"failed_at"`
	RetriedAt   time.Time     `json:"retried_at"`
}

// MarshalJSON writes the payout object of payout.* events and of the session. Source: api/decisions/objects.md,
// "payout".
func (p Payout) MarshalJSON() ([]byte, error) {
	type failure struct {
		Code    PayoutFailure `json:"code"`
		Message string        `json:"message"`
	}

	var f *failure
	if p.Status == PayoutFailed {
		f = &failure{p.Failure, p.Failure.Message()}
	}
	return EncodeJSON(struct {
		ID             string               `json:"id"`
		SessionID      *string              `json:"session_id"`     // null of a payout of the balance
		TransactionID  *string              `json:"transaction_id"` // null of a payout of the balance
		Status         PayoutStatus         `json:"status"`
		Amount         money.Crypto         `json:"amount"`
		Currency       money.PayoutCurrency `json:"currency"`
		Network        string               `json:"network"`
		Destination    string               `json:"destination"`
		SourceAmount   money.Amount         `json:"source_amount"`
		SourceCurrency money.Currency       `json:"source_currency"`
		Deductions     []Deduction          `json:"deductions,omitempty"`
		ExchangeRate   money.Rate           `json:"exchange_rate"`
		LockedRate     money.Rate           `json:"locked_exchange_rate"`
		RateUntil      *string              `json:"exchange_rate_locked_until"`
		Fee            money.Crypto         `json:"fee"`
		TxHash         *string              `json:"tx_hash"`
		Failure        *failure             `json:"failure"`
		Metadata       json.RawMessage      `json:"metadata"`
		Livemode       bool                 `json:"livemode"`
		CreatedAt      string               `json:"created_at"`
		SentAt         *string              `json:"sent_at"`
		ConfirmedAt    *string              `json:"confirmed_at,omitempty"`
		FailedAt       *string              `json:"failed_at"`
	}{
		ID: p.ID, SessionID: orNull(p.SessionID), TransactionID: orNull(p.TransactionID), Status: p.Status, Amount: p.Amount,
		Currency: p.Currency, Network: p.Network, Destination: p.Destination, SourceAmount: p.SourceAmount,
		SourceCurrency: p.SourceCurrency, Deductions: p.Deductions, ExchangeRate: p.ExchangeRate, LockedRate: p.LockedRate,
		RateUntil: FormatOptionalTime(p.RateUntil), Fee: p.Fee, TxHash: orNull(p.TxHash), Failure: f,
		Metadata: p.Metadata, Livemode: p.Mode.Live(), CreatedAt: FormatTime(p.CreatedAt),
		SentAt: FormatOptionalTime(p.SentAt), ConfirmedAt: FormatOptionalTime(p.ConfirmedAt),
		FailedAt: FormatOptionalTime(p.FailedAt),
	})
}

// orNull returns nil, a JSON null, for an empty string.
func orNull[T ~string](s T) *T {
	if s == "" {
		return nil
	}
	return &s
}

// ChainSandbox is the reference of the sandbox's chain. Those of real chains are CAIP-2 names, such as "eip155:1".
const ChainSandbox = "sandbox"
