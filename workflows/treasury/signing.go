package treasury

import (
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
)

// PayoutLimits are the most that a treasury account pays, in US cents. A limit of 0 holds every
// payout: there is no default.
type PayoutLimits struct {
	Payout      money.Amount // one payout
	MerchantDay money.Amount // all payouts of one merchant in 24 hours, over all accounts
	Day         money.Amount // all payouts of the account in 24 hours
	// All payouts of one merchant whose charges the acquirer has not made available yet.
	MerchantUnsettled money.Amount
}

// Largest returns the largest payout, in US cents, that needs no operator's release. A larger one would wait for ever,
// because no day has room for it.
func (l PayoutLimits) Largest() money.Amount { return min(l.Payout, l.MerchantDay, l.Day) }

// SigningFacts are the facts on which the next signature of a treasury account depends. They are read
// under the lock of the account.
type SigningFacts struct {
	Standing  bool // a transfer of the payout exists that may still pay it
	Pending   bool // the payout is pending, and no failure is recorded
	Frozen    bool
	Suspended bool // the merchant's payouts are suspended
	AtRisk    bool // the charge may go back to the customer, and no operator has released the payout
	Early     bool // the payment is not old enough
	Released  bool // an operator lets it pass whatever its size
	Settled   bool // the acquirer has made the charge's money available
	Foreign   bool // a transaction uses a slot that no transfer has

	Value       money.Amount // of this payout, in US cents
	MerchantDay money.Amount // of the merchant's standing transfers of the last 24 hours
	Day         money.Amount // of the account's
	Unsettled   money.Amount // of the merchant's standing transfers whose charges are not settled
	Limits      PayoutLimits

	Spends money.Purse // what the transfer takes from the account at most
	Live   money.Purse // what the live transfers may still take
	Has    money.Purse // the account's balances on the chain
}

// SigningStep is what to do with an order to send a payout.
type SigningStep string

// Steps of a signing.
const (
	SigningStands SigningStep = "stands" // send the bytes of the transfer that exists
	SigningEnded  SigningStep = "ended"  // the payout is decided
	SigningFreeze SigningStep = "freeze" // somebody else uses the account's key
	SigningHold   SigningStep = "hold"
	// SigningChanged: the payout pays another amount than when the transfer was priced. The next try prices it anew.
	SigningChanged SigningStep = "changed"
	SigningGo      SigningStep = "go"
)

// Decide returns the next step, and the reason when it is SigningHold or SigningFreeze.
func (s SigningFacts) Decide() (SigningStep, checkout.PayoutHold) {
	switch {
	case s.Standing:
		return SigningStands, ""
	case !s.Pending:
		return SigningEnded, ""
	case s.Frozen:
		return SigningHold, checkout.HoldFrozen
	case s.Foreign:
		return SigningFreeze, checkout.HoldFrozen
	case s.Suspended:
		return SigningHold, checkout.HoldSuspended
	case s.AtRisk:
		return SigningHold, checkout.HoldRisk
	case !s.Released && s.Value > s.Limits.Largest():
		return SigningHold, checkout.HoldLarge
	case s.Early:
		return SigningHold, checkout.HoldDelay
	case !s.Settled && s.Unsettled+s.Value > s.Limits.MerchantUnsettled:
		return SigningHold, checkout.HoldUnsettled
	case !s.Released && (s.MerchantDay+s.Value > s.Limits.MerchantDay || s.Day+s.Value > s.Limits.Day):
		return SigningHold, checkout.HoldLimit
	case !s.affordable():
		return SigningHold, checkout.HoldFloat
	}
	return SigningGo, ""
}

// affordable reports whether the account has what this transfer takes beside the live ones.
func (s SigningFacts) affordable() bool {
	for currency, spends := range s.Spends {
		has := s.Has[currency]
		if !has.Known() || has.Sub(s.Live[currency]).Cmp(spends) < 0 {
			return false
		}
	}
	return true
}
