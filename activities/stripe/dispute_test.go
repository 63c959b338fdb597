package stripe

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/stripe/stripe-go/v85"

	"example.com/checkout/workflows/books"
)

// TestDisputeStatus_AnUnknownOneIsOpen: activities tests the states that Stripe has.
func TestDisputeStatus_AnUnknownOneIsOpen(t *testing.T) {
	t.Parallel()
	require.Equal(t, books.RiskOpen, disputeStatus(&stripe.Dispute{Status: "a status of next year"}))
}
