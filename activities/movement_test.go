package activities_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/workflows/books"
	"example.com/checkout/workflows/money"
)

// TestReconcile_BooksWhatMovedTheBalance: after a charge, a dispute, a payout to our bank, a fee and a reserve the ledger has
// of the card network what the network's own list adds up to, and only the reserve is a finding.
func TestReconcile_BooksWhatMovedTheBalance(t *testing.T) {
	w := newTill(t)
	c := w.pay("visa")
	require.NoError(t, w.card.SetDispute(t.Context(), c.reference, "needs_response"))
	w.round()
	for category, amount := range map[string]int64{"payout": -40_00, "fee": -1_50, "risk_reserved_funds": -10_00} {
		require.NoError(t, w.card.Move(t.Context(), category, "eur", amount))
	}
	reserve := ""
	for range 2 { // a repeat books nothing
		w.compare()
		require.Equal(t, map[string]string{
			"acquirer:receivable": "-5000", "acquirer:disputed": "5000", "acquirer:balance": "-1825", "bank": "4000",
			"expense:acquirer": "1825", "suspense": "1000", "merchant:payable": "-5000",
		}, w.ledger())
		sum := money.Amount(0)
		for m, err := range w.network.Movements(t.Context(), time.Now().Add(-time.Hour), time.Now().Add(time.Minute)) {
			require.NoError(t, err)
			sum += m.Amount - m.Fee
			if m.Kind == books.MovementOther {
				reserve = m.ID
			}
		}
		require.Equal(t, money.Amount(-5000-1825), sum, "receivable and balance together")
	}
	unknown := w.open(books.FindingMovementUnknown)
	require.Len(t, unknown, 1)
	require.Equal(t, reserve, unknown[0])
}
