package stripe

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/stripe/stripe-go/v85"

	"example.com/checkout/workflows/books"
)

// The tests of package activities cover Stripe's present states.
func TestDisputeStatus_AnUnknownOneIsOpen(t *testing.T) {
	t.Parallel()
	require.Equal(t, books.RiskOpen, disputeStatus(&stripe.Dispute{Status: "a status of next year"}))
}
