package checkout

import "slices"

// PayoutHold is why a pending payout waits. Nothing was signed for it, unless no node answers. Source:
// api/decisions/treasury.md, "a payout on hold".
type PayoutHold string

// Reasons to hold a payout.
const (
	HoldFloat  PayoutHold = "float"  // the treasury has too little of the currency
	HoldLimit  PayoutHold = "limit"  // a limit of the merchant's day or of the account's
	HoldLarge  PayoutHold = "large"  // above the largest payout: only an operator lets it pass
	HoldFrozen PayoutHold = "frozen" // payouts are stopped
	HoldFee    PayoutHold = "fee"    // the network's fee is above its limit, or leaves too little
	HoldRate   PayoutHold = "rate"   // the network's fee has no price in the payout's currency
	HoldChain  PayoutHold = "chain"  // no node can be trusted now
	HoldSigner PayoutHold = "signer" // the signer refused or did not answer
	HoldAway   PayoutHold = "away"   // no node answers; a signed transfer may be on its way
	HoldRisk   PayoutHold = "risk"   // the charge may go back to the customer

	HoldDelay     PayoutHold = "delay"     // the payment is not old enough
	HoldUnsettled PayoutHold = "unsettled" // too much of the merchant's was paid before the acquirer settled
	HoldSuspended PayoutHold = "suspended" // an operator has suspended the merchant's payouts
)

// Patient reports whether a payout may wait without an end: time does not make the reason a failure.
func (h PayoutHold) Patient() bool {
	return slices.Contains([]PayoutHold{HoldAway, HoldRisk, HoldLarge, HoldDelay, HoldUnsettled, HoldSuspended}, h)
}

// HeldError is why a payout cannot be signed at present.
type HeldError struct {
	Why   PayoutHold
	Cause error
}

func (e HeldError) Error() string { return e.Cause.Error() }

// Unwrap returns the cause.
func (e HeldError) Unwrap() error { return e.Cause }
