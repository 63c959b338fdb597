package checkout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"example.com/checkout/workflows/money"
)

// TransactionStatus is the state of one payment.
type TransactionStatus string

// The hosted page creates a transaction. It is processing once the session's workflow has accepted
// it. Then it is decided, and the decision is final. Merchants see only decided transactions.
const (
	TransactionCreated    TransactionStatus = "created"
	TransactionProcessing TransactionStatus = "processing"
	TransactionSucceeded  TransactionStatus = "succeeded"
	TransactionFailed     TransactionStatus = "failed"
)

// DecidedTransactions are the states of a transaction that merchants see.
var DecidedTransactions = []TransactionStatus{TransactionSucceeded, TransactionFailed}

// FailureCode is why a payment failed. Source: api/decisions/objects.md, "failure codes of a transaction".
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

// failureMessages are shown to customers and merchants.
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

// EndsSession reports whether the failure ends the session even with attempts left. Source:
// api/decisions/sessions.md, "failed payments".
func (c FailureCode) EndsSession() bool { return c == FailureFraudBlocked }

// UndeclinedFailures tell nothing about the card: the customer gave up at the bank, or the network has an error.
var UndeclinedFailures = []FailureCode{FailureThreeDSAbandoned, FailureProcessingError}

// Declined reports whether the card was declined.
func (c FailureCode) Declined() bool { return c.Valid() && !slices.Contains(UndeclinedFailures, c) }

// PaymentMethod holds the facts about a card that may be shown.
type PaymentMethod struct {
	Type         string `json:"type"` // always "card"
	Brand        string `json:"brand"`
	Last4        string `json:"last4"`
	ExpMonth     int    `json:"exp_month"`
	ExpYear      int    `json:"exp_year"`
	Country      string `json:"country"` // country of the issuer, ISO 3166-1 alpha-2
	ThreeDSecure bool   `json:"three_d_secure"`
}

// Transaction is one payment of a session.
type Transaction struct {
	Ref

	SessionID         string
	Status            TransactionStatus
	Amount            money.Amount
	Currency          money.Currency
	PayoutCurrency    money.PayoutCurrency
	Fee               money.Amount
	Net               money.Amount
	ExchangeRate      money.Rate // payout currency for one unit of Currency; none when it failed
	CustomerEmail     *string
	Metadata          json.RawMessage
	PaymentMethod     PaymentMethod
	Failure           FailureCode // "" unless the payment failed
	Attempt           int         // the first is 1
	AttemptsRemaining int
	SessionStatus     Status // status right after this payment was decided
	CreatedAt         time.Time
	CompletedAt       *time.Time
}

// MarshalJSON writes the transaction object of checkout.* events and of the session. Source:
// api/decisions/objects.md, "transaction".
func (t Transaction) MarshalJSON() ([]byte, error) {
	type failure struct {
		Code    FailureCode `json:"code"`
		Message string      `json:"message"`
	}

	var f *failure
	if t.Failure != "" {
		f = &failure{t.Failure, t.Failure.Message()}
	}
	return EncodeJSON(struct {
		ID                string               `json:"id"`
		SessionID         string               `json:"session_id"`
		Status            TransactionStatus    `json:"status"`
		Amount            money.Amount         `json:"amount"`
		Currency          money.Currency       `json:"currency"`
		PayoutCurrency    money.PayoutCurrency `json:"payout_currency"`
		Fee               money.Amount         `json:"fee"`
		Net               money.Amount         `json:"net"`
		ExchangeRate      *string              `json:"exchange_rate"`
		CustomerEmail     *string              `json:"customer_email"`
		Metadata          json.RawMessage      `json:"metadata"`
		PaymentMethod     PaymentMethod        `json:"payment_method"`
		Failure           *failure             `json:"failure"`
		Attempt           int                  `json:"attempt"`
		AttemptsRemaining int                  `json:"attempts_remaining"`
		SessionStatus     Status               `json:"session_status"`
		Livemode          bool                 `json:"livemode"`
		CreatedAt         string               `json:"created_at"`
		CompletedAt       *string              `json:"completed_at"`
	}{
		ID: t.ID, SessionID: t.SessionID, Status: t.Status, Amount: t.Amount, Currency: t.Currency,
		PayoutCurrency: t.PayoutCurrency, Fee: t.Fee, Net: t.Net, ExchangeRate: orNull(t.ExchangeRate.String()),
		CustomerEmail: t.CustomerEmail, Metadata: t.Metadata, PaymentMethod: t.PaymentMethod, Failure: f,
		Attempt: t.Attempt, AttemptsRemaining: t.AttemptsRemaining, SessionStatus: t.SessionStatus,
		Livemode: t.Mode.Live(), CreatedAt: FormatTime(t.CreatedAt),
		CompletedAt: FormatOptionalTime(t.CompletedAt),
	})
}

// Card is the customer's card. It stays in memory, on its way from the form to the card network's
// token endpoint. Its methods prevent every way of printing it.
type Card struct {
	Number   string // digits only
	ExpMonth int
	ExpYear  int // four digits
	CVC      string
	Name     string // as on the card; "" when the form did not ask
}

// LogValue keeps the card out of structured logs.
func (Card) LogValue() slog.Value { return slog.StringValue("[card]") }

// Format keeps the card out of every fmt verb.
func (Card) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("[card]")) } // a formatter cannot report an error

// MarshalJSON always returns an error, so that no card is encoded by accident.
func (Card) MarshalJSON() ([]byte, error) { return nil, errors.New("a card is never encoded") }

// PaymentOutcome is the card network's answer about a payment.
type PaymentOutcome string

// Outcomes of a payment. The first two are final. The last two mean that nothing was charged and
// that CardNetwork.Confirm would charge.
const (
	OutcomeSucceeded      PaymentOutcome = "succeeded"
	OutcomeFailed         PaymentOutcome = "failed"
	OutcomeActionRequired PaymentOutcome = "action_required" // the customer must confirm (3-D Secure)
	OutcomeProcessing     PaymentOutcome = "processing"      // the network decides later and calls back
	OutcomeUntried        PaymentOutcome = "untried"         // no confirmation has reached the network
	OutcomeAgreed         PaymentOutcome = "agreed"          // the customer's bank has agreed
)

// Final reports whether the outcome can no longer change.
func (o PaymentOutcome) Final() bool { return o == OutcomeSucceeded || o == OutcomeFailed }

// Chargeable reports whether nothing was charged and a confirmation would charge.
func (o PaymentOutcome) Chargeable() bool { return o == OutcomeUntried || o == OutcomeAgreed }

// ChargeRequest describes the charge of a tokenized card.
type ChargeRequest struct {
	TransactionID string
	SessionID     string
	Attempt       int
	Token         string // from the network's own form, or from hosted.TestCards
	Amount        money.Amount
	Currency      money.Currency
	ReturnURL     string // where the bank sends the customer after 3-D Secure
}

// ChargeResult is the network's answer about one transaction.
type ChargeResult struct {
	Outcome   PaymentOutcome
	Failure   FailureCode // set when Outcome is failed
	ActionURL string      // set when Outcome is action_required
	Method    PaymentMethod
}

// Acquirer names a card network. A payment stays with the one that its token is of.
type Acquirer string

// Card networks.
const (
	AcquirerSandbox Acquirer = "sandbox"
	AcquirerStripe  Acquirer = "stripe"
)

// Tells reports whether somebody tells the session whenever the network has decided. Otherwise the
// session must ask by itself.
func (a Acquirer) Tells() bool { return a == AcquirerSandbox }

// CardNetwork is an acquirer's API. Any error means that the outcome is unknown: ask with Payment. A
// decline is a result, not an error. No method takes a card number.
//
// A charge has two steps, so that the name of the charge is stored before money can move: Prepare
// returns the network's reference, and Confirm charges. Only the caller can confirm.
type CardNetwork interface {
	// Prepare names the charge at the network and returns its reference. It moves no money. A
	// repeat may return another reference. The caller stores the first one and uses no other.
	Prepare(ctx context.Context, req ChargeRequest) (reference string, err error)
	// Confirm charges the card, or goes on after the customer's bank has agreed. The first
	// confirmation of a reference has number 1. The caller uses each number once, and confirms
	// again only when Payment says that the outcome is Chargeable.
	Confirm(ctx context.Context, reference string, number int, req ChargeRequest) (ChargeResult, error)
	// Payment returns the present outcome. It moves no money.
	Payment(ctx context.Context, reference string) (ChargeResult, error)
	// Cancel makes the outcome final: failed with the reason, or succeeded when the card was
	// charged before. Afterwards the reference can never be charged. A declined reference must be
	// canceled too, because a network may let it be confirmed again.
	Cancel(ctx context.Context, reference string, reason FailureCode) (ChargeResult, error)
	// Refund gives back a part of a charge, once for each id of a refund. A repeat returns the present state.
	Refund(ctx context.Context, req RefundRequest) (RefundResult, error)
}
