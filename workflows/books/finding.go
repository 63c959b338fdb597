// Package books holds what the card network's books are compared by: charges and their costs, risks, refunds,
// movements and findings. It does no I/O.
package books

import (
	"time"

	"example.com/checkout/workflows/checkout"
)

// FindingKind is a kind of difference between the books and the world.
type FindingKind string

// Kinds of findings about charges.
const (
	FindingChargeUnmatched FindingKind = "charge_unmatched" // charged, and no completed session
	FindingChargeUnknown   FindingKind = "charge_unknown"   // charged for a transaction that is not there
	FindingChargeDiffers   FindingKind = "charge_differs"   // another amount or currency
	FindingChargeMissing   FindingKind = "charge_missing"   // completed, and the network knows no charge
	FindingChargeLate      FindingKind = "charge_late"      // the network has not booked it for two days
	FindingCostDiffers     FindingKind = "cost_differs"     // what it cost changed after it was booked
	FindingMovementUnknown FindingKind = "movement_unknown" // the network changed our balance; the subject is its movement
	// The subject of these three is the network's dispute, warning or refund.
	FindingChargeDisputed FindingKind = "charge_disputed"
	FindingFraudWarning   FindingKind = "fraud_warning"
	FindingRefundForeign  FindingKind = "refund_foreign" // made at the network, and not by this service
	// Its subject is our refund. The customer did not get the money.
	FindingRefundFailed FindingKind = "refund_failed"
	// The subject of these two is the transaction.
	FindingRefundShort     FindingKind = "refund_short"      // the payment is given back, but not the whole of it
	FindingRefundedAndPaid FindingKind = "refunded_and_paid" // the customer and the merchant both have the money
)

// Kinds of findings about sums and accounts.
const (
	// Its subject is the account of the ledger with its asset.
	FindingLedgerDiffers FindingKind = "ledger_differs"
	// Its subject is the account of the treasury, which signs nothing.
	FindingTreasuryFrozen FindingKind = "treasury_frozen"
)

// FindingPayoutSanctioned: the payout's destination is a sanctioned address. Its subject is the payout.
const FindingPayoutSanctioned FindingKind = "payout_sanctioned"

// Kinds of findings about a live merchant that is above a limit. Their subject is the merchant.
const (
	FindingMerchantDisputes FindingKind = "merchant_disputes"
	FindingMerchantRefunds  FindingKind = "merchant_refunds"
	FindingCardTesting      FindingKind = "card_testing" // most cards of the last minutes were declined
)

// Finding is a difference that a person should explain. It is open until it is gone.
type Finding struct {
	ID       string // fnd_…
	Mode     checkout.Mode
	Kind     FindingKind
	Subject  string // what differs: txn_…, or the network's name of a charge
	Detail   string // a sentence for an operator
	OpenedAt time.Time
	ClosedAt *time.Time
}
