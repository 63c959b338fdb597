package stripe_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	api "github.com/stripe/stripe-go/v85"

	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/books"
	"example.com/checkout/workflows/money"
)

// inTime takes the place of each date by which a dispute is to be answered.
var inTime = time.Unix(1, 0)

// risks asks for the risks of a charge. Their ids differ in each run and are left out.
func (w *world) risks(reference string) []books.ChargeRisk {
	got := must.Get(w.network.Risks(w.Context(), reference))(w)
	for i := range got {
		require.NotEmpty(w, got[i].ID)
		got[i].ID = ""
		if by := got[i].RespondBy; !by.IsZero() {
			require.WithinRange(w, by, time.Now().AddDate(0, 0, 6), time.Now().AddDate(0, 0, 22))
			got[i].RespondBy = inTime
		}
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

	for _, step := range []struct {
		status    string
		want      books.RiskStatus
		respondBy time.Time
		responded bool
		fee       money.Amount
	}{
		{"warning_needs_response", books.RiskInquiry, inTime, false, 0},
		{"needs_response", books.RiskOpen, inTime, false, 15_00},
		{"under_review", books.RiskOpen, time.Time{}, true, 15_00},
		{"won", books.RiskWon, time.Time{}, true, 15_00},   // the fee is not given back
		{"lost", books.RiskLost, time.Time{}, true, 30_00}, // decided anew, for another fee
	} {
		require.NoError(t, w.double.SetDispute(t.Context(), reference, step.status))
		dispute := books.ChargeRisk{
			Kind: books.RiskDispute, Status: step.want, Amount: req.Amount, Currency: req.Currency, Reason: "fraudulent",
			RespondBy: step.respondBy, Responded: step.responded, Fee: step.fee,
		}
		if step.fee != 0 {
			dispute.FeeCurrency = money.EUR
		}
		require.Equal(t, []books.ChargeRisk{dispute, warning}, w.risks(reference), step.status)
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

func TestRisks_FollowTheCard(t *testing.T) {
	t.Parallel()
	w := newDouble(t)
	for card, want := range map[string]struct {
		kind   books.RiskKind
		status books.RiskStatus
	}{
		"createDispute":           {books.RiskDispute, books.RiskOpen},
		"createDisputeInquiry":    {books.RiskDispute, books.RiskInquiry},
		"createIssuerFraudRecord": {books.RiskFraudWarning, books.RiskInquiry},
	} {
		_, reference := w.paid(card)
		risks := w.risks(reference)
		require.Len(t, risks, 1, card)
		require.Equal(t, []any{want.kind, want.status}, []any{risks[0].Kind, risks[0].Status}, card)
	}
}
