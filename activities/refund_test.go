package activities_test

import (
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	api "github.com/stripe/stripe-go/v85"

	"example.com/checkout/activities"
	"example.com/checkout/activities/stripe"
	"example.com/checkout/deploy/standin/acquirer"
	"example.com/checkout/storage"
	"example.com/checkout/storage/pgtemp"
	"example.com/checkout/storage/storagetest"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/books"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/treasury"
)

// till is the books of a merchant with the double of Stripe.
type till struct {
	*liveBooks

	card    *acquirer.Acquirer
	network *stripe.Network
	api     *api.Client // somebody else with the same account
	account string      // of the treasury
}

// newTill returns the world of a test. The test runs beside others.
func newTill(t *testing.T) *till {
	live := newBooks(t)
	const key = "sk_test_till"
	double := must.Get(acquirer.Start(t.Context(), acquirer.Options{
		DatabaseURL: pgtemp.ForTest(t, nil), SecretKey: key, Livemode: true,
	}))(t)
	t.Cleanup(double.Stop)
	w := &till{liveBooks: live, card: double}
	w.network = must.Get(stripe.New(stripe.Options{SecretKey: key, Mode: checkout.ModeLive, APIURL: double.APIURL(), Simulated: true}))(t)
	w.api = api.NewClient(key, api.WithBackends(api.NewBackendsWithConfig(&api.BackendConfig{
		URL: api.String(double.APIURL()), MaxNetworkRetries: api.Int64(0), LeveledLogger: &api.LeveledLogger{Level: api.LevelNull},
	})))
	w.Accounts[checkout.ModeLive] = activities.Account{
		CardNetwork: w.network, Succeeded: w.network.Succeeded, Movements: w.network.Movements, Charged: w.network.Charged,
		Risks: w.network.Risks, Events: w.network.Events, Note: w.Store.Books.StoreAcquirerEvent,
	}
	a := must.Get(w.Store.Treasury.OpenTreasury(t.Context(), checkout.ModeLive, treasury.Account{
		Network: "ethereum", ChainID: "eip155:1", Address: "0xTreasury"}, treasury.AccountSnapshot{}))(t)
	w.account = a.ID
	return w
}

// charged is a payment of 50.00 EUR.
type charged struct {
	reference, transaction string
	payout                 checkout.Ref
}

// pay pays with one of Stripe's test cards.
func (w *till) pay(card string) charged {
	ctx := w.t.Context()
	s := storagetest.Session(w.t, w.Store, w.owner, func(s *checkout.Session) { s.Amount = 5000 })
	token := must.Get(w.api.V1TestHelpersConfirmationTokens.Create(ctx,
		&api.TestHelpersConfirmationTokenCreateParams{PaymentMethod: api.String("pm_card_" + card)}))(w.t)
	reference, id, settled := storagetest.Charge(w.t, w.Store, s, storage.NewPayment{CardToken: token.ID},
		checkout.Quote{Rate: money.MustRate("1.08")}, w.network)
	return charged{reference, id, w.owner.Ref(settled.PayoutID)}
}

// order orders a refund as an operator does, after the chain was compared.
func (w *till) order(c charged) (checkout.Refund, error) {
	require.NoError(w.t, w.Store.Treasury.RecordComparison(w.t.Context(), w.account, treasury.AccountSnapshot{}))
	return w.Store.Refunds.RefundPayout(w.t.Context(), c.payout)
}

func (w *till) mustOrder(c charged) checkout.Refund { return must.Get(w.order(c))(w.t) }

// round does what the schedule and the runs of the refunds do.
func (w *till) round() {
	must.Get(run[int](w.liveBooks, w.ReadReports))(w.t)
	must.Get(w.sendRefunds())(w.t)
	w.look()
}

// requireAgrees compares the ledger with the balance at the card network, to the cent.
func (w *till) requireAgrees(words string) {
	facts := must.Get(w.card.Facts(w.t.Context()))(w.t)
	require.Equal(w.t, facts.Balance, storagetest.AtCardNetwork(w.t, w.Database), words)
	report := must.Get(w.Store.Books.DayReport(w.t.Context(), time.Now()))(w.t)
	require.True(w.t, report.Agrees(), "%s: %+v", words, report.Checks)
}

// payoutOf returns how the payout of a charge stands.
func (w *till) payoutOf(c charged) string {
	p := must.Get(w.Store.Payouts.Payout(w.t.Context(), c.payout))(w.t)
	if p.Failure != "" {
		return string(p.Status) + ": " + string(p.Failure)
	}
	return fmt.Sprintf("%s: %s", p.Status, p.Net())
}

// moved returns by how much the balances in euros differ from before.
func (w *till) moved(before map[string]string) map[string]string {
	sums := map[string]int{}
	for sign, ledger := range map[int]map[string]string{1: w.ledger(), -1: before} {
		for account, amount := range ledger {
			sums[account] += sign * must.Get(strconv.Atoi(amount))(w.t)
		}
	}
	got := map[string]string{}
	for account, n := range sums {
		if n != 0 {
			got[account] = strconv.Itoa(n)
		}
	}
	return got
}

// open returns the subjects of the open findings of a kind.
func (w *till) open(kind books.FindingKind) (subjects []string) {
	for _, f := range must.Get(w.Store.Books.OpenFindings(w.t.Context(), checkout.ModeLive))(w.t) {
		if f.Kind == kind {
			subjects = append(subjects, f.Subject)
		}
	}
	return subjects
}

var (
	owed     = map[string]string{"acquirer:receivable": "5000", "merchant:payable": "-5000"}
	refunded = map[string]string{}
	feeOwed  = map[string]string{"merchant:payable": "1500", "expense:acquirer": "-1500"} // of a dispute
	disputed = map[string]string{
		"acquirer:disputed": "5000", "merchant:disputed": "-5000", "merchant:payable": "1500", "expense:acquirer": "-1500",
	}
)

// The refund succeeds, and days later the customer's bank sends the money back.
func TestRefund_TheBankReturnsIt(t *testing.T) {
	w := newTill(t)
	c := w.pay("refundFail")
	first := w.mustOrder(c)
	w.round()
	require.Equal(t, checkout.RefundSucceeded, w.mustOrder(c).Status)
	require.Equal(t, refunded, w.ledger())
	require.NoError(t, w.card.SettleRefunds(t.Context()))
	for range 2 {
		w.round()
		require.Equal(t, []string{first.ID}, w.open(books.FindingRefundFailed))
		require.Equal(t, owed, w.ledger())
		w.requireAgrees("returned")
	}

	// The operator refunds once more, and the bank takes it.
	second := w.mustOrder(c)
	require.NotEqual(t, first.ID, second.ID)
	require.Empty(t, w.open(books.FindingRefundFailed), "it is ordered again")
	require.ErrorIs(t, must.Err(w.Store.Payouts.RetryPayout(t.Context(), c.payout)), checkout.ErrPaymentRefunded)
	w.round()
	require.Equal(t, refunded, w.ledger())
	w.requireAgrees("refunded again")
	require.NoError(t, w.card.SettleRefunds(t.Context()))
	w.round()
	require.NoError(t, must.Err(w.Store.Payouts.RetryPayout(t.Context(), c.payout)), "the merchant may have it instead")
	require.Equal(t, owed, w.ledger())
}

// No report arrives, and the return is seen within a day.
func TestRefund_ALostReportOfItsReturnIsAskedFor(t *testing.T) {
	w := newTill(t)
	c := w.pay("refundFail")
	w.mustOrder(c)
	w.round()
	require.NoError(t, w.card.SettleRefunds(t.Context()))
	w.Exec(w.t, `UPDATE acquirer_event SET unseen = false`)
	require.Zero(t, w.look())
	w.Exec(w.t, `UPDATE refund SET asked_at = now() - interval '25 hours'`)
	require.Equal(t, 1, w.look())
	require.Len(t, w.open(books.FindingRefundFailed), 1)
	require.Equal(t, owed, w.ledger())
}

// TestRefund_EachStateOfStripe holds the table "states of a refund" of api/decisions/cards.md.
func TestRefund_EachStateOfStripe(t *testing.T) {
	w := newTill(t)
	foreign := func(c charged) error {
		_, err := w.api.V1Refunds.Create(w.t.Context(), &api.RefundCreateParams{PaymentIntent: api.String(c.reference)})
		return err
	}
	held := map[string]string{"acquirer:disputed": "5000", "merchant:disputed": "-5000"}
	for status, want := range map[string]struct {
		ours    checkout.RefundStatus
		books   map[string]string // of a refund of ours
		others  books.RiskStatus
		foreign map[string]string // of a refund of somebody else
		payout  string            // of its payment
	}{
		"pending":         {checkout.RefundPending, refunded, books.RiskOpen, held, "pending: 0.00"},
		"requires_action": {checkout.RefundPending, refunded, books.RiskOpen, held, "pending: 0.00"},
		"succeeded":       {checkout.RefundSucceeded, refunded, books.RiskLost, refunded, "failed: refunded"},
		"failed":          {checkout.RefundFailed, owed, books.RiskWon, owed, "pending: 50.00"},
		"canceled":        {checkout.RefundFailed, owed, books.RiskWon, owed, "pending: 50.00"},
	} {
		before := w.ledger()
		c := w.pay("visa")
		first := w.mustOrder(c)
		w.round()
		require.NoError(t, w.card.SetRefund(t.Context(), c.reference, status))
		w.round()
		require.Equal(t, want.books, w.moved(before), status)
		require.Equal(t, "failed: refunded", w.payoutOf(c), status)
		w.requireAgrees("ours " + status)
		ended := want.ours == checkout.RefundFailed
		require.Equal(t, ended, slices.Contains(w.open(books.FindingRefundFailed), first.ID), status)
		again := w.mustOrder(c)
		require.Equal(t, ended, again.ID != first.ID, "a failed one is ordered again: %s", status)
		if !ended {
			require.Equal(t, want.ours, again.Status)
			require.ErrorIs(t, must.Err(w.Store.Payouts.RetryPayout(t.Context(), c.payout)), checkout.ErrPaymentRefunded)
		}
		w.round() // sends it, so that the next refund finds the books at rest

		before = w.ledger()
		c = w.pay("visa")
		require.NoError(t, foreign(c))
		require.NoError(t, w.card.SetRefund(t.Context(), c.reference, status))
		w.round()
		risks := must.Get(w.Store.Payouts.PayoutRisks(t.Context(), c.payout))(t)
		require.Equal(t, want.others, risks[0].Status, status)
		require.Equal(t, want.foreign, w.moved(before), status)
		require.Equal(t, want.payout, w.payoutOf(c), status)
		require.Equal(t, want.others != books.RiskWon, slices.Contains(w.open(books.FindingRefundForeign), risks[0].ID), status)
		w.requireAgrees("of somebody else " + status)
	}
}

// TestDispute_EachStateOfStripe holds the table "states of a dispute" of api/decisions/cards.md.
func TestDispute_EachStateOfStripe(t *testing.T) {
	w := newTill(t)
	for status, want := range map[string]struct {
		risk   books.RiskStatus
		books  map[string]string
		payout string
		refund string            // how an order of a refund ends
		after  map[string]string // the refund
	}{
		"warning_needs_response": {books.RiskInquiry, owed, "pending: 50.00", "made", refunded},
		"warning_under_review":   {books.RiskInquiry, owed, "pending: 50.00", "made", refunded},
		"warning_closed":         {books.RiskWon, owed, "pending: 50.00", "made", refunded},
		"needs_response":         {books.RiskOpen, disputed, "pending: 0.00", "refused", disputed},
		"under_review":           {books.RiskOpen, disputed, "pending: 0.00", "refused", disputed},
		"won":                    {books.RiskWon, owed, "pending: 50.00", "made", refunded},
		"lost":                   {books.RiskLost, feeOwed, "failed: disputed", "not needed", feeOwed},
		"prevented":              {books.RiskWon, owed, "pending: 50.00", "made", refunded},
		// Prevented by giving the customer the money.
		"resolution": {books.RiskLost, feeOwed, "failed: disputed", "not needed", feeOwed},
	} {
		before := w.ledger()
		c := w.pay("visa")
		require.NoError(t, w.card.SetDispute(t.Context(), c.reference, status))
		w.round()
		risks := must.Get(w.Store.Payouts.PayoutRisks(t.Context(), c.payout))(t)
		require.Equal(t, want.risk, risks[0].Status, status)
		require.Equal(t, want.books, w.moved(before), status)
		require.Equal(t, want.payout, w.payoutOf(c), status)
		require.Equal(t, want.risk != books.RiskWon, slices.Contains(w.open(books.FindingChargeDisputed), risks[0].ID), status)
		w.requireAgrees("disputed " + status)

		r, err := w.order(c)
		if want.refund == "refused" {
			require.ErrorIs(t, err, checkout.ErrDisputeOpen, status)
			require.Equal(t, want.after, w.moved(before), status)
			continue
		}
		require.NoError(t, err, status)
		require.Equal(t, want.refund == "not needed", r.Amount == 0, status)
		w.round()
		again := w.mustOrder(c)
		require.Equal(t, []any{r.ID, checkout.RefundSucceeded}, []any{again.ID, again.Status}, "a repeat changes nothing: %s", status)
		require.Equal(t, want.after, w.moved(before), status)
		w.requireAgrees("refunded " + status)
	}
}

// The refund was ordered before the dispute was reported.
func TestRefund_RefusedForADisputeIsMadeOnceItIsWon(t *testing.T) {
	w := newTill(t)
	c := w.pay("visa")
	require.NoError(t, w.card.Dispute(t.Context(), c.reference))
	first := w.mustOrder(c)
	must.Get(w.sendRefunds())(t)
	require.Equal(t, []string{first.ID}, w.open(books.FindingRefundFailed))
	require.Contains(t, must.Get(w.Store.Books.OpenFindings(t.Context(), checkout.ModeLive))(t)[0].Detail, "charge_disputed")
	w.round()
	w.requireAgrees("disputed")
	require.ErrorIs(t, must.Err(w.order(c)), checkout.ErrDisputeOpen)
	require.NoError(t, w.card.SetDispute(t.Context(), c.reference, "won"))
	w.round()
	require.NotEqual(t, first.ID, w.mustOrder(c).ID)
	w.round()
	require.Equal(t, feeOwed, w.ledger())
	require.Empty(t, w.findings())
	w.requireAgrees("refunded")
}

// The card network gives the money back once only.
func TestRefund_ADisputeFailsOneThatWaits(t *testing.T) {
	w := newTill(t)
	c := w.pay("pendingRefund")
	first := w.mustOrder(c)
	w.round()
	require.NoError(t, w.card.Dispute(t.Context(), c.reference))
	w.round()
	require.Equal(t, []string{first.ID}, w.open(books.FindingRefundFailed))
	require.Equal(t, disputed, w.ledger())
	w.requireAgrees("disputed")
}

// A part was refunded outside this service before. The order names an amount, so the card network refuses it unless that
// part is known, and it can be ordered again once it is.
func TestRefund_GivesBackWhatIsLeft(t *testing.T) {
	w := newTill(t)
	for _, known := range []bool{true, false} {
		c := w.pay("visa")
		w.refundOutside(c)
		if known {
			w.round()
		} else {
			r := w.mustOrder(c)
			require.Equal(t, money.Amount(5000), r.Amount)
			must.Get(w.sendRefunds())(t)
			require.Equal(t, []string{r.ID}, w.open(books.FindingRefundFailed))
			require.Equal(t, owed, w.ledger())
			w.round()
		}
		r := w.mustOrder(c)
		require.Equal(t, money.Amount(3000), r.Amount)
		w.round()
		require.Equal(t, []any{r.ID, checkout.RefundSucceeded}, []any{w.mustOrder(c).ID, w.mustOrder(c).Status})
		require.Equal(t, refunded, w.ledger())
		w.requireAgrees("refunded")
		require.Empty(t, w.open(books.FindingRefundShort))
		require.Empty(t, w.open(books.FindingRefundFailed))
	}
}

// The customer had everything by a lost dispute, so nothing was sent, and then the dispute is won after all.
func TestRefund_WhatComesBackIsOrderedAgain(t *testing.T) {
	w := newTill(t)
	c := w.pay("visa")
	require.NoError(t, w.card.SetDispute(t.Context(), c.reference, "lost"))
	w.round()
	require.Zero(t, w.mustOrder(c).Amount)
	require.NoError(t, w.card.SetDispute(t.Context(), c.reference, "won"))
	w.round()
	require.Equal(t, []string{c.transaction}, w.open(books.FindingRefundShort))
	w.requireAgrees("won after all")
	require.Equal(t, money.Amount(5000), w.mustOrder(c).Amount)
	w.round()
	require.Equal(t, feeOwed, w.ledger())
	require.Empty(t, w.findings())
}

// The card network refused a refund, the payout was retried and paid, and then it shows the refund all the same.
func TestRefund_WhatTheMerchantGotTooIsFound(t *testing.T) {
	w := newTill(t)
	c := w.pay("visa")
	require.NoError(t, w.card.Dispute(t.Context(), c.reference))
	r := w.mustOrder(c)
	w.round()
	require.NoError(t, w.card.SetDispute(t.Context(), c.reference, "won"))
	w.round()
	require.NoError(t, must.Err(w.Store.Payouts.RetryPayout(t.Context(), c.payout)))
	w.Exec(w.t, `UPDATE payout SET status = 'sent', sent_at = now()`)
	require.NoError(t, must.Err(w.api.V1Refunds.Create(t.Context(), &api.RefundCreateParams{
		PaymentIntent: api.String(c.reference), Metadata: map[string]string{"refund_id": r.ID},
	})))
	w.round()
	require.Equal(t, []string{c.transaction}, w.open(books.FindingRefundedAndPaid))
	require.NoError(t, must.Err(w.order(c)), "it says how the refund stands")
}

// refundOutside gives 20.00 back past the service, if so much is left.
func (w *till) refundOutside(c charged) {
	_, _ = w.api.V1Refunds.Create(w.t.Context(), &api.RefundCreateParams{
		PaymentIntent: api.String(c.reference), Amount: api.Int64(2000),
	})
}

var refundSteps = flag.Int("refund-steps", 3, "steps of an order of refunds and disputes, 3 or 4; .ci/run takes 4")

// The steps are a refund outside, a dispute, our refund, and a dispute won or lost, in all orders of -refund-steps.
func TestRefund_TheLedgerAgreesAfterEveryOrder(t *testing.T) {
	t.Parallel()
	courses := map[string][][]string{} // by their first step
	for _, course := range orders([]string{"part", "dispute", "refund", "won", "lost"}, *refundSteps) {
		courses[course[0]] = append(courses[course[0]], course)
	}
	require.Len(t, courses, 5)
	for first, courses := range courses {
		require.Len(t, courses, map[int]int{3: 4 * 3, 4: 4 * 3 * 2}[*refundSteps], "the shorter ones are their beginnings")
		t.Run(first, func(t *testing.T) {
			newTill(t).takeCourses(courses)
		})
	}
}

// takeCourses pays, and takes each course. What two courses begin with is checked once.
func (w *till) takeCourses(courses [][]string) {
	t := w.t
	steps := map[string]func(c charged){
		"part":    w.refundOutside,
		"dispute": func(c charged) { require.NoError(t, w.card.Dispute(t.Context(), c.reference)) },
		"refund": func(c charged) {
			if _, err := w.order(c); err != nil {
				require.ErrorIs(t, err, checkout.ErrDisputeOpen)
			}
		},
		"won":  func(c charged) { require.NoError(t, w.card.SetDispute(t.Context(), c.reference, "won")) },
		"lost": func(c charged) { require.NoError(t, w.card.SetDispute(t.Context(), c.reference, "lost")) },
	}
	checked := map[string]bool{}
	for _, course := range courses {
		c := w.pay("visa")
		for i, step := range course {
			steps[step](c)
			w.follow(c)
			if words := strings.Join(course[:i+1], ", "); !checked[words] {
				checked[words] = true
				w.requireAgrees(words)
			}
		}
		// Nothing of this course is asked about in the next one.
		require.NoError(t, w.card.SetDispute(t.Context(), c.reference, "won"))
		w.follow(c)
		w.requireAgrees(strings.Join(course, ", ") + ", and won")
	}
}

// follow reports that something about a charge has changed, and does what follows from it.
func (w *till) follow(c charged) {
	require.NoError(w.t, must.Err(w.Store.Books.StoreAcquirerEvent(w.t.Context(), books.AcquirerEvent{
		ID: checkout.NewID(checkout.PrefixEvent), Mode: checkout.ModeLive, Reference: c.reference, Risk: true, CreatedAt: time.Now(),
	})))
	must.Get(w.sendRefunds())(w.t)
	w.look()
}

// orders returns all ways to take n of the words, one after the other.
func orders(words []string, n int) (all [][]string) {
	if n == 0 {
		return [][]string{nil}
	}
	for i, word := range words {
		rest := slices.Delete(slices.Clone(words), i, i+1)
		for _, course := range orders(rest, n-1) {
			all = append(all, append([]string{word}, course...))
		}
	}
	return all
}

// A charge, a dispute, a payout to our bank, a fee and a reserve: the ledger equals the network's list.
// The reserve is a finding.
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
			"expense:acquirer": "325", "suspense": "1000", "merchant:disputed": "-5000", "merchant:payable": "1500",
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
