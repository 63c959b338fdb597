package books

import (
	"time"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
)

// ChargeRisk is something at the card network that puts the payout of a paid charge at risk: the money may go back to
// the customer. Source: api/decisions/treasury.md, "a charge at risk".
type ChargeRisk struct {
	ID       string // the card network's: du_…, issfr_… or re_…
	Kind     RiskKind
	Status   RiskStatus
	Amount   money.Amount // that goes back, or may; of the whole charge for a warning
	Currency money.Currency
	RefundID string // our id of a refund that this service made; "" for everything else
	// The rest is known of disputes only.
	Reason      string         // the network's word, such as "fraudulent"
	RespondBy   time.Time      // until when the bank takes evidence; zero when it wants none
	Responded   bool           // evidence was sent
	Fee         money.Amount   // that the network took for the dispute, in FeeCurrency
	FeeCurrency money.Currency // in which the network settles
}

// Is reports whether nothing about the risk is new.
func (r ChargeRisk) Is(before ChargeRisk) bool {
	same := r.RespondBy.Equal(before.RespondBy)
	r.RespondBy, r.RefundID = before.RespondBy, before.RefundID
	return same && r == before
}

// RiskKind is what puts a payout at risk.
type RiskKind string

// Kinds of risks.
const (
	RiskDispute      RiskKind = "dispute"       // the customer denies the charge at the bank
	RiskFraudWarning RiskKind = "fraud_warning" // the bank believes that the charge is a fraud
	RiskRefund       RiskKind = "refund"        // somebody made it at the card network, past this service
)

// RiskStatus is where the money of a risk is.
type RiskStatus string

// An inquiry may become open. An open one is won or lost, and even that may be decided anew.
const (
	RiskInquiry RiskStatus = "inquiry" // no money has moved
	RiskOpen    RiskStatus = "open"    // the card network holds the money until it is decided
	RiskWon     RiskStatus = "won"     // the money stays or is back
	RiskLost    RiskStatus = "lost"    // the customer has the money
)

// RiskOf returns where the money of a refund in this state is.
func RiskOf(s checkout.RefundStatus) RiskStatus {
	switch s {
	case checkout.RefundSucceeded:
		return RiskLost
	case checkout.RefundFailed:
		return RiskWon
	}
	return RiskOpen
}

// Refund returns the state of a refund whose money is there.
func (s RiskStatus) Refund() checkout.RefundStatus {
	switch s {
	case RiskLost:
		return checkout.RefundSucceeded
	case RiskWon:
		return checkout.RefundFailed
	}
	return checkout.RefundPending
}

// Finding returns the kind of the finding about a risk.
func (k RiskKind) Finding() FindingKind {
	switch k {
	case RiskDispute:
		return FindingChargeDisputed
	case RiskRefund:
		return FindingRefundForeign
	}
	return FindingFraudWarning
}
