package activities

import (
	"context"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/contract"
)

// Treasury holds the activity that follows transfers and signs batches.
type Treasury struct {
	// Follow holds the rounds by mode.
	Follow map[checkout.Mode]Follow
}

// Follow is one round for all accounts of a mode.
type Follow func(ctx context.Context) (TreasuryResult, error)

// TreasuryResult is the report of a round. Operators read it in Temporal's UI.
type TreasuryResult struct {
	Live      int      `json:"live"` // transfers that are not final
	Resent    int      `json:"resent,omitempty"`
	Bumped    int      `json:"bumped,omitempty"`
	Signed    int      `json:"signed,omitempty"` // payouts of the batch that was signed
	Confirmed int      `json:"confirmed,omitempty"`
	Canceled  int      `json:"canceled,omitempty"` // an operator canceled them
	Reopened  int      `json:"reopened,omitempty"` // a reorganization undid their end
	Alarms    []string `json:"alarms,omitempty"`   // sentences for an operator
	// Failed lists payouts that failed after they were signed.
	Failed []FailedPayout `json:"failed,omitempty"`
}

// FailedPayout is a payout whose merchant must be notified.
type FailedPayout = storage.PayoutFollowUp

// SyncTreasury is one round of following the signed transfers of a mode and signing the next batch. Follow leads to
// treasury.Treasury.Sync, through modeTreasury in worker/mode_treasury.go.
func (t *Treasury) SyncTreasury(ctx context.Context, in contract.ModeInput) (TreasuryResult, error) {
	follow, ok := t.Follow[in.Mode]
	if !ok {
		return TreasuryResult{}, asFinal(ctx, ErrNoNetwork, "")
	}
	result, err := follow(ctx)
	for _, says := range result.Alarms {
		raiseAlarm(ctx, in.Mode, alarmTreasury, says)
	}
	return result, asFinal(ctx, err, "")
}
