package stripe

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/stripe/stripe-go/v85"

	"example.com/checkout/workflows/checkout"
)

func TestDisputeStatus_AWarningMovesNoMoney(t *testing.T) {
	t.Parallel()
	for status, want := range map[stripe.DisputeStatus]checkout.RiskStatus{
		"warning_needs_response": checkout.RiskInquiry, "warning_under_review": checkout.RiskInquiry,
		"warning_closed": checkout.RiskWon, "prevented": checkout.RiskWon, "won": checkout.RiskWon,
		"needs_response": checkout.RiskOpen, "under_review": checkout.RiskOpen, "lost": checkout.RiskLost,
		"a status of next year": checkout.RiskOpen,
	} {
		require.Equal(t, want, disputeStatus(&stripe.Dispute{Status: status}), status)
	}
	resolved := &stripe.Dispute{
		Status: stripe.DisputeStatusPrevented, BalanceTransactions: []*stripe.BalanceTransaction{{Amount: -1050}},
	}
	require.Equal(t, checkout.RiskLost, disputeStatus(resolved), "the customer has the money")
}
