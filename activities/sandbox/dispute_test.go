package sandbox

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/storage/storagetest"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/books"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
)

// A bench is a slow network with the reports about its charges.
type bench struct {
	*testing.T
	*CardNetwork
	storagetest.Database

	reports map[string]int // by charge
	refuse  error          // of every report
}

// newBench returns the world of a test. The test runs beside others.
func newBench(t *testing.T) *bench {
	n, db := newSlowNetwork(t)
	return &bench{T: t, CardNetwork: n, Database: db, reports: map[string]int{}}
}

// pay pays with a card, and waits until the bank has done what it does.
func (b *bench) pay(number string) (reference string) {
	req, _, err := charge(b.T, b.CardNetwork, number)
	require.NoError(b, err)
	b.hourLater()
	return req.TransactionID
}

func (b *bench) hourLater() {
	age(b.T, b.Database)
	b.round()
}

func (b *bench) round() {
	for range 2 {
		require.NoError(b, b.callBackDue(b.Context(), Callbacks{ChargeChanged: func(_ context.Context, reference string) error {
			b.reports[reference]++
			return b.refuse
		}}))
	}
}

// risk returns the only risk of a charge, without its id, and by how much the bank's time for evidence is to come.
func (b *bench) risk(reference string) (r books.ChargeRisk, toCome time.Duration) {
	all := must.Get(b.Risks(b.Context(), reference))(b.T)
	require.Len(b, all, 1)
	r = all[0]
	if !r.RespondBy.IsZero() {
		toCome = time.Until(r.RespondBy).Round(time.Hour)
	}
	r.ID, r.RespondBy = "", time.Time{}
	return r, toCome
}

// id returns the id of the charge's dispute.
func (b *bench) id(reference string) string {
	return must.Get(b.Risks(b.Context(), reference))(b.T)[0].ID
}

func saying(text string) checkout.Evidence {
	return checkout.Evidence{Texts: map[string]string{"uncategorized_text": text, "customer_name": "Ann"}}
}

func TestDispute_EndsAsTheEvidenceSays(t *testing.T) {
	b := newBench(t)
	for _, c := range []struct {
		number, evidence string // "" sends none
		opened, ended    books.RiskStatus
	}{
		{"4000000000000291", "winning_evidence", books.RiskOpen, books.RiskWon},
		{"4000000000000291", "losing_evidence", books.RiskOpen, books.RiskLost},
		{"4000000000000291", "a long story", books.RiskOpen, books.RiskLost},
		{"4000000000000291", "", books.RiskOpen, books.RiskLost},
		{"4000000000001976", "winning_evidence", books.RiskInquiry, books.RiskWon},
		{"4000000000001976", "losing_evidence", books.RiskInquiry, books.RiskWon},
		{"4000000000001976", "", books.RiskInquiry, books.RiskWon},
	} {
		reference := b.pay(c.number)
		want := books.ChargeRisk{
			Kind: books.RiskDispute, Status: c.opened, Amount: 1050, Currency: money.EUR, Reason: "general",
		}
		if c.opened == books.RiskOpen {
			want.Reason, want.Fee, want.FeeCurrency = "fraudulent", 15_00, money.EUR
		}
		got, toCome := b.risk(reference)
		require.Equal(t, want, got)
		require.Equal(t, evidenceWindow, toCome)
		require.Equal(t, 1, b.reports[reference])

		if c.evidence != "" {
			for range 2 { // the repeat does nothing
				require.NoError(t, b.Respond(t.Context(), b.id(reference), saying(c.evidence)))
			}
			require.NoError(t, b.Respond(t.Context(), b.id(reference), saying("winning_evidence")), "the first counts")
			want.Responded = true
			got, toCome = b.risk(reference)
			require.Equal(t, want, got)
			require.Zero(t, toCome, "no more evidence is wanted")
			b.round()
			require.Equal(t, 2, b.reports[reference])
			b.hourLater()
		}
		got, _ = b.risk(reference)
		require.Equal(t, c.evidence == "" || c.evidence == "a long story", got.Status == c.opened, "only the time decides")
		if got.Status == c.opened {
			b.Exec(t, `UPDATE sandbox_dispute SET later_at = later_at - interval '7 days', respond_by = respond_by - interval '7 days',
				report_at = report_at - interval '7 days' WHERE transaction_id = $1`, reference)
			b.round()
			if c.evidence == "" {
				late := b.Respond(t.Context(), b.id(reference), saying("winning_evidence"))
				require.ErrorIs(t, late, checkout.ErrConflict)
			}
		}
		want.Status = c.ended
		got, _ = b.risk(reference)
		require.Equal(t, want, got)
		reports := 2
		if c.evidence != "" {
			reports = 3
		}
		require.Equal(t, reports, b.reports[reference])
	}
}

func TestDispute_AFraudWarningMovesNothing(t *testing.T) {
	b := newBench(t)
	reference := b.pay("4000000000005423")
	want := books.ChargeRisk{Kind: books.RiskFraudWarning, Status: books.RiskInquiry, Amount: 1050, Currency: money.EUR}
	got, _ := b.risk(reference)
	require.Equal(t, want, got)
	require.ErrorIs(t, b.Respond(t.Context(), b.id(reference), saying("winning_evidence")), checkout.ErrConflict)
	require.ErrorIs(t, b.Respond(t.Context(), "du_unknown", saying("winning_evidence")), checkout.ErrNotFound)
	require.ErrorAs(t, b.Respond(t.Context(), "du_unknown", checkout.Evidence{}), new(*checkout.EvidenceError))
	b.hourLater()
	require.Equal(t, 1, b.reports[reference])
	require.Empty(t, must.Get(b.Risks(t.Context(), "txn_unknown"))(t))
}

func TestDispute_IsAboutWhatTheRefundsHaveLeft(t *testing.T) {
	b := newBench(t)
	for refund, disputed := range map[money.Amount]money.Amount{0: 1050, 300: 750, 1050: 0} {
		req, _, err := charge(b.T, b.CardNetwork, "4000000000000291")
		require.NoError(t, err)
		reference := req.TransactionID
		if refund != 0 {
			require.Equal(t, checkout.RefundSucceeded, b.mustRefund(t, reference, checkout.NewID(checkout.PrefixRefund), refund).Status)
		}
		b.hourLater()
		sums := map[books.RiskKind]money.Amount{}
		for _, r := range must.Get(b.Risks(t.Context(), reference))(t) {
			sums[r.Kind] += r.Amount
		}
		require.Equal(t, []money.Amount{disputed, refund}, []money.Amount{sums[books.RiskDispute], sums[books.RiskRefund]})

		if disputed == 0 {
			continue
		}
		id := checkout.NewID(checkout.PrefixRefund)
		refused := checkout.RefundResult{Status: checkout.RefundFailed, Why: "charge_disputed"}
		require.Equal(t, refused, b.mustRefund(t, reference, id, 1))
		require.NoError(t, b.Respond(t.Context(), b.id(reference), saying("winning_evidence")))
		require.Equal(t, refused, b.mustRefund(t, reference, id, 1))
		b.hourLater()
		require.Equal(t, checkout.RefundSucceeded, b.mustRefund(t, reference, id, 1).Status, "the dispute is won")
	}
	inquired := b.pay("4000000000001976")
	require.Equal(t, checkout.RefundSucceeded, b.mustRefund(t, inquired, checkout.NewID(checkout.PrefixRefund), 1050).Status)
}

func TestDispute_AReportThatIsRefusedComesAgain(t *testing.T) {
	b := newBench(t)
	b.refuse = errors.New("not now")
	reference := b.pay("4000000000000291")
	require.Equal(t, 1, b.reports[reference], "not at once")
	b.refuse = nil
	b.hourLater()
	b.hourLater()
	require.Equal(t, 2, b.reports[reference])
}
