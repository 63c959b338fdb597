package activities_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/activities"
	"example.com/checkout/storage/storagetest"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/books"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
)

// atRisk reports, in a list of the network, that something about a charge has changed.
func (b *liveBooks) atRisk(c books.Charged, risks ...books.ChargeRisk) {
	b.reported(time.Minute)
	e := b.events[len(b.events)-1]
	e.Type, e.Reference, e.Risk = "charge.dispute.created", c.Reference, true
	must.Get(b.Store.Books.StoreAcquirerEvent(b.t.Context(), e))(b.t)
	b.risks[c.Reference] = risks
}

func (b *liveBooks) look() int { return must.Get(run[int](b, b.LookAtCharges))(b.t) }

// ledger returns the balances in euros.
func (b *liveBooks) ledger() map[string]string {
	got := map[string]string{}
	for _, balance := range must.Get(b.Store.Books.LedgerBalances(b.t.Context(), checkout.ModeLive))(b.t) {
		require.Equal(b.t, "EUR", balance.Asset)
		if balance.Amount != "0" {
			got[balance.Account] = balance.Amount
		}
	}
	return got
}

func dispute(status books.RiskStatus) books.ChargeRisk {
	return books.ChargeRisk{ID: "du_1", Kind: books.RiskDispute, Status: status, Amount: 1050, Currency: money.EUR}
}

// What the network says now is booked, whatever was reported, how often and in which order.
func TestLookAtCharges_BooksADisputeOnce(t *testing.T) {
	t.Parallel()
	undisputed := map[string]string{"acquirer:receivable": "1050", "merchant:payable": "-1050"}
	held := map[string]string{"acquirer:disputed": "1050", "merchant:disputed": "-1050"}
	entries := map[books.RiskStatus]map[string]string{
		books.RiskInquiry: undisputed, books.RiskOpen: held, books.RiskWon: undisputed, books.RiskLost: {},
	}
	for name, course := range map[string][]books.RiskStatus{
		"an inquiry that ends":      {books.RiskInquiry, books.RiskInquiry, books.RiskWon},
		"an inquiry that goes on":   {books.RiskInquiry, books.RiskOpen, books.RiskLost},
		"won":                       {books.RiskOpen, books.RiskOpen, books.RiskWon, books.RiskWon},
		"lost":                      {books.RiskOpen, books.RiskLost, books.RiskLost},
		"seen when it was over":     {books.RiskLost},
		"won after it was lost":     {books.RiskLost, books.RiskWon},
		"decided anew":              {books.RiskOpen, books.RiskWon, books.RiskOpen, books.RiskLost},
		"won before it was noticed": {books.RiskWon},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBooks(t)
			c := b.paid(checkout.OutcomeSucceeded)
			for _, status := range course {
				b.atRisk(c, dispute(status))
				b.atRisk(c, dispute(status))
				require.Equal(t, 1, b.look(), "two reports, one look")
				require.Equal(t, entries[status], b.ledger(), status)
			}
			if final := course[len(course)-1]; final == books.RiskWon {
				require.Empty(t, b.findings())
			} else {
				require.Equal(t, map[books.FindingKind]string{books.FindingChargeDisputed: "du_1"}, b.findings())
			}
			require.Zero(t, b.look(), "there is nothing left to ask")
		})
	}
}

// The charge was made, and its answer was late.
func TestLookAtCharges_BooksARiskThatIsOlderThanTheDecision(t *testing.T) {
	b := newBooks(t)
	c := b.paid("")
	refund := books.ChargeRisk{ID: "re_1", Kind: books.RiskRefund, Status: books.RiskLost, Amount: 300, Currency: money.EUR}
	b.atRisk(c, dispute(books.RiskInquiry), refund)
	b.look()
	b.atRisk(c, dispute(books.RiskOpen), refund)
	b.look()
	require.Empty(t, b.ledger(), "the charge is not booked yet")

	storagetest.Finish(t, b.Store, b.owner.Ref(c.SessionID), c.TransactionID, storagetest.Succeeded)
	require.Equal(t, map[string]string{
		"acquirer:receivable": "-300", "acquirer:disputed": "1050", "merchant:disputed": "-1050", "merchant:payable": "300",
	}, b.ledger())
	b.compare()
	require.NotContains(t, b.findings(), books.FindingLedgerDiffers)
	b.atRisk(c, dispute(books.RiskWon), refund)
	b.look()
	require.Equal(t, map[string]string{"acquirer:receivable": "750", "merchant:payable": "-750"}, b.ledger())
}

// The report of its end may be lost.
func TestLookAtCharges_AsksAgainAboutAnOpenDispute(t *testing.T) {
	b := newBooks(t)
	c := b.paid(checkout.OutcomeSucceeded)
	b.atRisk(c, dispute(books.RiskOpen))
	b.look()
	b.risks[c.Reference] = []books.ChargeRisk{dispute(books.RiskWon)}
	require.Equal(t, 1, b.look())
	require.Empty(t, b.findings())
	require.Zero(t, b.look())
}

// A foreign charge is looked at once.
func TestLookAtCharges_OfAnotherApplication(t *testing.T) {
	b := newBooks(t)
	b.atRisk(books.Charged{Reference: "pi_of_another_application"}, dispute(books.RiskOpen))
	require.Equal(t, 1, b.look())
	require.Empty(t, b.findings())
	require.Zero(t, b.look())
}

// What was reported after the network answered is not taken for seen.
func TestLookAtCharges_AReportDuringTheLookIsFollowed(t *testing.T) {
	b := newBooks(t)
	c := b.paid(checkout.OutcomeSucceeded)
	b.atRisk(c)
	b.change(func(account *activities.Account) {
		before := *account
		account.Risks = func(ctx context.Context, reference string) ([]books.ChargeRisk, error) {
			got, err := before.Risks(ctx, reference)
			b.atRisk(c, dispute(books.RiskOpen))
			b.Accounts[checkout.ModeLive] = before
			return got, err
		}
	})
	require.Equal(t, 1, b.look())
	require.Empty(t, b.findings())
	require.Equal(t, 1, b.look())
	require.Len(t, b.findings(), 1)
}
