package checkout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// TransactionStatus is the state of one payment.
type TransactionStatus string

// A transaction is created by the hosted page, processing once its session's
// workflow has accepted it, and then decided once and for all. Merchants only
// ever see decided ones.
const (
	TransactionCreated    TransactionStatus = "created"
	TransactionProcessing TransactionStatus = "processing"
	TransactionSucceeded  TransactionStatus = "succeeded"
	TransactionFailed     TransactionStatus = "failed"
)

// FailureCode says why a payment failed. Source: api/decisions.md, "transaction".
type FailureCode string

// Reasons of a failed payment.
const (
	FailureCardDeclined      FailureCode = "card_declined"
	FailureInsufficientFunds FailureCode = "insufficient_funds"
	FailureExpiredCard       FailureCode = "expired_card"
	FailureIncorrectCVC      FailureCode = "incorrect_cvc"
	FailureFraudBlocked      FailureCode = "fraud_blocked"
	FailureThreeDSFailed     FailureCode = "three_ds_failed"
	FailureThreeDSAbandoned  FailureCode = "three_ds_abandoned"
	FailureProcessingError   FailureCode = "processing_error"
)

// failureMessages are shown to customers and merchants alike.
var failureMessages = map[FailureCode]string{
	FailureCardDeclined:      "Your card was declined. Try another card.",
	FailureInsufficientFunds: "Your card has insufficient funds. Try another card.",
	FailureExpiredCard:       "Your card has expired. Try another card.",
	FailureIncorrectCVC:      "Your card's security code is incorrect. Check it and try again.",
	FailureFraudBlocked:      "This payment was blocked. Contact the merchant.",
	FailureThreeDSFailed:     "Your bank could not confirm that it is you. Try again or use another card.",
	FailureThreeDSAbandoned:  "You did not finish your bank's confirmation. Try again.",
	FailureProcessingError:   "Your card could not be processed. You have not been charged. Try again.",
}

// Message is the human-readable text of the code.
func (c FailureCode) Message() string { return failureMessages[c] }

// Valid reports whether c is a known reason.
func (c FailureCode) Valid() bool { return failureMessages[c] != "" }

// EndsSession reports whether the failure ends the session at once, whatever
// attempts are left. Source: api/decisions.md, "failed payments".
func (c FailureCode) EndsSession() bool { return c == FailureFraudBlocked }

// PaymentMethod is what may be shown of a card.
type PaymentMethod struct {
	Type         string `json:"type"` // always "card"
	Brand        string `json:"brand"`
	Last4        string `json:"last4"`
	ExpMonth     int    `json:"exp_month"`
	ExpYear      int    `json:"exp_year"`
	Country      string `json:"country"` // of the issuer, ISO 3166-1 alpha-2
	ThreeDSecure bool   `json:"three_d_secure"`
}

// Transaction is one payment of a session.
type Transaction struct {
	Ref

	SessionID         string
	Status            TransactionStatus
	Amount            Amount
	Currency          Currency
	PayoutCurrency    PayoutCurrency
	Fee               Amount
	Net               Amount
	ExchangeRate      string // payout currency for one unit of Currency, decimal; "" when it failed
	CustomerEmail     *string
	Metadata          json.RawMessage
	PaymentMethod     PaymentMethod
	Failure           FailureCode // "" unless failed
	Attempt           int         // the first is 1
	AttemptsRemaining int
	SessionStatus     Status // right after this payment was decided
	CreatedAt         time.Time
	CompletedAt       *time.Time
}

// MarshalJSON writes the transaction object that checkout.* events and the
// session carry. Source: api/decisions.md, "transaction".
func (t Transaction) MarshalJSON() ([]byte, error) {
	type failure struct {
		Code    FailureCode `json:"code"`
		Message string      `json:"message"`
	}
	var f *failure
	if t.Failure != "" {
		f = &failure{t.Failure, t.Failure.Message()}
	}
	var rate *string
	if t.ExchangeRate != "" {
		rate = &t.ExchangeRate
	}
	return EncodeJSON(struct {
		ID                string            `json:"id"`
		SessionID         string            `json:"session_id"`
		Status            TransactionStatus `json:"status"`
		Amount            Amount            `json:"amount"`
		Currency          Currency          `json:"currency"`
		PayoutCurrency    PayoutCurrency    `json:"payout_currency"`
		Fee               Amount            `json:"fee"`
		Net               Amount            `json:"net"`
		ExchangeRate      *string           `json:"exchange_rate"`
		CustomerEmail     *string           `json:"customer_email"`
		Metadata          json.RawMessage   `json:"metadata"`
		PaymentMethod     PaymentMethod     `json:"payment_method"`
		Failure           *failure          `json:"failure"`
		Attempt           int               `json:"attempt"`
		AttemptsRemaining int               `json:"attempts_remaining"`
		SessionStatus     Status            `json:"session_status"`
		Livemode          bool              `json:"livemode"`
		CreatedAt         string            `json:"created_at"`
		CompletedAt       *string           `json:"completed_at"`
	}{
		t.ID, t.SessionID, t.Status, t.Amount, t.Currency, t.PayoutCurrency, t.Fee, t.Net, rate,
		t.CustomerEmail, t.Metadata, t.PaymentMethod, f, t.Attempt, t.AttemptsRemaining, t.SessionStatus,
		t.Mode.Live(), FormatTime(t.CreatedAt), FormatOptionalTime(t.CompletedAt),
	})
}

// Card is what the customer types. It lives in memory only, between the form
// and the card network's token endpoint; every way of printing it is closed.
type Card struct {
	Number   string // digits only
	ExpMonth int
	ExpYear  int // four digits
	CVC      string
	Name     string // on the card; "" when it was not asked for
}

// LogValue keeps a card out of structured logs.
func (Card) LogValue() slog.Value { return slog.StringValue("[card]") }

// Format keeps a card out of every fmt verb.
func (Card) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("[card]")) } // a formatter cannot report an error

// MarshalJSON refuses, so that no card is ever encoded by accident.
func (Card) MarshalJSON() ([]byte, error) { return nil, errors.New("a card is never encoded") }

// PaymentOutcome is what the card network said of a payment.
type PaymentOutcome string

// Outcomes of a payment. The first two are final.
const (
	OutcomeSucceeded      PaymentOutcome = "succeeded"
	OutcomeFailed         PaymentOutcome = "failed"
	OutcomeActionRequired PaymentOutcome = "action_required" // the customer must confirm (3-D Secure)
	OutcomeProcessing     PaymentOutcome = "processing"      // the network decides later and calls back
)

// Final reports whether the outcome cannot change any more.
func (o PaymentOutcome) Final() bool { return o == OutcomeSucceeded || o == OutcomeFailed }

// ChargeRequest asks to charge a tokenized card. TransactionID is the
// idempotency key: the network charges at most once for it.
type ChargeRequest struct {
	TransactionID string
	SessionID     string
	Attempt       int
	Token         string
	Amount        Amount
	Currency      Currency
	ReturnURL     string // where the bank sends the customer back to after 3-D Secure
}

// ChargeResult is the network's answer about one transaction.
type ChargeResult struct {
	Outcome   PaymentOutcome
	Failure   FailureCode // set when Outcome is failed
	ActionURL string      // set when Outcome is action_required
	Method    PaymentMethod
}

// CardNetwork is what an acquirer offers. Any error means that the outcome is
// unknown and the call is to be repeated; a decline is a result, not an error.
type CardNetwork interface {
	// Tokenize exchanges a card for a token that only this service can charge.
	Tokenize(ctx context.Context, card Card) (token string, method PaymentMethod, err error)
	// Charge charges once per TransactionID; repeated, it returns the first outcome.
	Charge(ctx context.Context, req ChargeRequest) (ChargeResult, error)
	// Payment returns the present outcome of a transaction that was charged.
	Payment(ctx context.Context, transactionID string) (ChargeResult, error)
	// Cancel makes the outcome final: an undecided or unknown transaction fails
	// and can never be charged afterwards; a decided one keeps its outcome.
	Cancel(ctx context.Context, transactionID string, reason FailureCode) (ChargeResult, error)
}
