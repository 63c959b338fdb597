package activities

import (
	"context"

	"example.com/checkout/workflows/checkout"
)

// Treasury holds the activity that follows live transfers.
type Treasury struct {
	// Follow is one round for all accounts.
	Follow func(ctx context.Context) (TreasuryReport, error)
}

// TreasuryReport says what a round did. Operators read it in Temporal's UI.
type TreasuryReport struct {
	Live      int      `json:"live"` // transfers that are not final
	Resent    int      `json:"resent,omitempty"`
	Bumped    int      `json:"bumped,omitempty"`
	Confirmed int      `json:"confirmed,omitempty"`
	Canceled  int      `json:"canceled,omitempty"` // an operator canceled them
	Reopened  int      `json:"reopened,omitempty"` // a reorganization undid their end
	Alarms    []string `json:"alarms,omitempty"`   // sentences for an operator
	// Failed lists payouts that failed after they were signed.
	Failed []FailedPayout `json:"failed,omitempty"`
}

// FailedPayout is a payout whose merchant must be told.
type FailedPayout struct {
	checkout.Ref
	Settlement
}

// SyncTreasury is one round of following the signed transfers.
func (t *Treasury) SyncTreasury(ctx context.Context) (TreasuryReport, error) {
	report, err := t.Follow(ctx)
	for _, alarm := range report.Alarms {
		logger(ctx).ErrorContext(ctx, "treasury", "alarm", alarm)
	}
	return report, asFinal(ctx, err, "")
}
