package checkout

import (
	"time"

	"example.com/checkout/workflows/money"
)

// Balance is what the service owes a merchant in one fiat currency, and the other way round. The sum of the merchant's
// balance transactions is Pending + Available - Owed.
type Balance struct {
	Currency  money.Currency `json:"currency"`
	Pending   money.Amount   `json:"pending"`   // of payouts that are under way and not signed
	Available money.Amount   `json:"available"` // of no payout under way
	Reserved  money.Amount   `json:"reserved"`  // kept for a time
	Owed      money.Amount   `json:"owed"`      // by the merchant; later payouts pay it
}

// BalanceTransactionType is what changed a balance.
type BalanceTransactionType string

// Kinds of balance transactions. A fee is part of what it was taken for.
const (
	BalancePayment      BalanceTransactionType = "payment"
	BalancePayout       BalanceTransactionType = "payout"
	BalancePayoutFailed BalanceTransactionType = "payout_failed" // a signed transfer paid nothing
	BalanceRefund       BalanceTransactionType = "refund"
	BalanceRefundFailed BalanceTransactionType = "refund_failed"
	BalanceDispute      BalanceTransactionType = "dispute"
	BalanceDisputeFee   BalanceTransactionType = "dispute_fee"
	BalanceReserve      BalanceTransactionType = "reserve"    // kept of a payment
	BalanceRelease      BalanceTransactionType = "release"    // of what was kept
	BalanceConversion   BalanceTransactionType = "conversion" // a debt in another currency
	BalanceCorrection   BalanceTransactionType = "correction" // of an operator
)

// BalanceTransactionTypes lists every kind of balance transactions.
var BalanceTransactionTypes = []BalanceTransactionType{
	BalancePayment, BalancePayout, BalancePayoutFailed, BalanceRefund, BalanceRefundFailed, BalanceDispute,
	BalanceDisputeFee, BalanceReserve, BalanceRelease, BalanceConversion, BalanceCorrection,
}

// BalanceTransaction is one change of a merchant's balance.
type BalanceTransaction struct {
	Ref // btx_…

	Type      BalanceTransactionType
	Currency  money.Currency
	Amount    money.Amount // before the fee; below 0 when the balance fell
	Fee       money.Amount // that the service took; below 0 when it gave it back
	Net       money.Amount // Amount - Fee: the change of the balance
	Source    string       // id of the transaction, payout, refund or dispute that caused it
	CreatedAt time.Time
}

// MarshalJSON writes the balance transaction. Source: api/decisions/objects.md, "balance transaction".
func (t BalanceTransaction) MarshalJSON() ([]byte, error) {
	return EncodeJSON(struct {
		ID        string                 `json:"id"`
		Type      BalanceTransactionType `json:"type"`
		Currency  money.Currency         `json:"currency"`
		Amount    money.Amount           `json:"amount"`
		Fee       money.Amount           `json:"fee"`
		Net       money.Amount           `json:"net"`
		Source    string                 `json:"source"`
		Livemode  bool                   `json:"livemode"`
		CreatedAt string                 `json:"created_at"`
	}{
		t.ID, t.Type, t.Currency, t.Amount, t.Fee, t.Net, t.Source, t.Mode.Live(), FormatTime(t.CreatedAt),
	})
}
