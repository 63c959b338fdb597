package stripe_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	api "github.com/stripe/stripe-go/v85"

	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/books"
)

// risks asks for the risks of a charge. Their ids differ in each run and are left out.
func (w *world) risks(reference string) []books.ChargeRisk {
	got := must.Get(w.network.Risks(w.Context(), reference))(w)
	for i := range got {
		require.NotEmpty(w, got[i].ID)
		got[i].ID = ""
	}
	return got
}

func TestRisks_SaysWhereTheMoneyIs(t *testing.T) {
	t.Parallel()
	w := newDouble(t)
	req, reference := w.paid("visa")
	_, other := w.prepare("visa")
	require.Empty(t, w.risks(reference))

	require.NoError(t, w.double.Warn(t.Context(), reference))
	warning := books.ChargeRisk{
		Kind: books.RiskFraudWarning, Status: books.RiskInquiry, Amount: req.Amount, Currency: req.Currency,
	}
	require.Equal(t, []books.ChargeRisk{warning}, w.risks(reference))

	dispute := books.ChargeRisk{Kind: books.RiskDispute, Amount: req.Amount, Currency: req.Currency}
	require.NoError(t, w.double.Dispute(t.Context(), reference))
	for _, ended := range []string{"", "won", "lost"} {
		dispute.Status = books.RiskOpen
		if ended != "" {
			require.NoError(t, w.double.SetDispute(t.Context(), reference, ended))
			dispute.Status = books.RiskStatus(ended)
		}
		require.Equal(t, []books.ChargeRisk{dispute, warning}, w.risks(reference))
	}
	require.Empty(t, w.risks(other), "the charge of another intent")
	require.ErrorContains(t, must.Err(w.network.Risks(t.Context(), "../events")), "not the id")
}

func TestRisks_TellsOurRefundsFromOthers(t *testing.T) {
	t.Parallel()
	w := newDouble(t)
	for card, want := range map[string]books.RiskStatus{
		"visa": books.RiskLost, "pendingRefund": books.RiskOpen, "refundFail": books.RiskWon,
	} {
		req, reference := w.paid(card)
		require.NoError(t, must.Err(w.api.V1Refunds.Create(t.Context(), &api.RefundCreateParams{
			PaymentIntent: api.String(reference), Amount: api.Int64(300),
		})))
		if card == "refundFail" {
			require.NoError(t, w.double.SettleRefunds(t.Context()))
		}
		require.Equal(t, []books.ChargeRisk{
			{Kind: books.RiskRefund, Status: want, Amount: 300, Currency: req.Currency},
		}, w.risks(reference), card)
	}
	_, reference := w.paid("visa")
	id := newRefundID()
	w.refund(reference, id)
	require.Equal(t, id, w.risks(reference)[0].RefundID)
}
