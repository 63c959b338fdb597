package activities_test

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"

	"example.com/checkout/activities"
	"example.com/checkout/api/acquirer"
	"example.com/checkout/storage"
	"example.com/checkout/storage/storagetest"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/books"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/contract"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/money"
)

// liveBooks are the live books of one merchant and the charges of a card network.
type liveBooks struct {
	*activities.Books
	storagetest.Database
	Store *storage.Store

	t       *testing.T
	owner   checkout.Owner
	charges []books.Charged
	refunds map[string]checkout.RefundResult // by charge; made
	answer  checkout.RefundStatus
	away    error
	events  []books.AcquirerEvent         // the network's list, oldest first
	asked   []string                      // the cursors from which it was read
	risks   map[string][]books.ChargeRisk // by charge
	old     map[string]books.Charged      // charges that are not compared any more
	moved   map[time.Time]books.Movement  // of our balance, by their times
	awayTo  time.Time                     // until when the network's lists are away
}

// network makes refunds. It is asked for nothing else.
type network struct {
	checkout.CardNetwork
	b *liveBooks
}

func (n network) Refund(_ context.Context, req checkout.RefundRequest) (checkout.RefundResult, error) {
	if n.b.away != nil {
		return checkout.RefundResult{}, n.b.away
	}
	got := checkout.RefundResult{Status: n.b.answer, Reference: "of " + req.ID}
	if made, ok := n.b.refunds[req.Reference]; ok {
		require.Equal(n.b.t, made.Reference, got.Reference, "one refund of a charge")
	}
	n.b.refunds[req.Reference] = got
	return got, nil
}

// newBooks returns the world of a test. The test runs beside others.
func newBooks(t *testing.T) *liveBooks {
	t.Parallel()
	db := storagetest.New(t)
	store := db.Open(t, 0)
	m := merchant.Merchant{ID: checkout.NewID(checkout.PrefixMerchant), Name: "Shop", Plan: "standard", PaymentAttempts: 3}
	require.NoError(t, store.Merchants.CreateMerchant(t.Context(), m, checkout.ModeLive, nil))
	b := &liveBooks{
		t: t, Database: db, Store: store, owner: m.Owner(checkout.ModeLive), refunds: map[string]checkout.RefundResult{}, answer: checkout.RefundSucceeded,
		risks: map[string][]books.ChargeRisk{},
	}
	account := activities.Account{CardNetwork: network{b: b}, Movements: b.movements, Succeeded: func(_ context.Context, since, until time.Time) iter.Seq2[books.Charged, error] {
		return func(yield func(books.Charged, error) bool) {
			for _, c := range b.charges {
				if !c.CreatedAt.Before(since) && c.CreatedAt.Before(until) && !yield(c, nil) {
					return
				}
			}
			switch {
			case b.away != nil:
				yield(books.Charged{}, b.away)
			case since.Before(b.awayTo):
				yield(books.Charged{}, errors.New("this part of the list is away"))
			}
		}
	}, Events: b.list, Note: acquirer.Reports{Books: store.Books, Log: slog.New(slog.DiscardHandler)}.RecordReport, Risks: func(_ context.Context, reference string) ([]books.ChargeRisk, error) {
		return b.risks[reference], b.away
	}, Charged: func(_ context.Context, reference string) (books.Charged, error) {
		c, ok := b.old[reference]
		if !ok {
			return c, checkout.ErrNotFound
		}
		return c, nil
	}}
	b.Books = &activities.Books{Store: store.Books, Refunds: store.Refunds, Accounts: map[checkout.Mode]activities.Account{checkout.ModeLive: account}}
	return b
}

func (b *liveBooks) movements(_ context.Context, since, until time.Time) iter.Seq2[books.Movement, error] {
	return func(yield func(books.Movement, error) bool) {
		for at, m := range b.moved {
			if !at.Before(since) && at.Before(until) && !yield(m, nil) {
				return
			}
		}
	}
}

// paid pays a session, and returns the charge as the network has it.
func (b *liveBooks) paid(outcome checkout.PaymentOutcome) books.Charged {
	s, reference := storagetest.Session(b.t, b.Store, b.owner), "pi_"+checkout.NewID(checkout.PrefixTransaction)
	id := storagetest.Begin(b.t, b.Store, s.Ref, storage.NewPayment{}, reference)
	if outcome != "" {
		storagetest.Finish(b.t, b.Store, s.Ref, id, checkout.ChargeResult{Outcome: outcome, Failure: "card_declined"})
	}
	c := books.Charged{
		Reference: reference, TransactionID: id, SessionID: s.ID, Amount: 1050, Currency: money.EUR, CreatedAt: time.Now().Add(-time.Hour),
	}
	b.charges = append(b.charges, c)
	return c
}

// availableAt is when the money of the charge is available, nil when that is not known.
func (b *liveBooks) availableAt(c books.Charged) (at *time.Time) {
	at = storagetest.Value[*time.Time](b.t, b.Database, `SELECT available_at FROM transaction WHERE id = $1`, c.TransactionID)
	if at != nil {
		*at = at.UTC()
	}
	return at
}

// run executes an activity of the books and decodes its result.
func run[T any](b *liveBooks, activity any, setUp ...func(*testsuite.TestActivityEnvironment)) (T, error) {
	env := (&testsuite.WorkflowTestSuite{}).NewTestActivityEnvironment()
	env.RegisterActivity(b.Books)
	for _, do := range setUp {
		do(env)
	}
	var got T
	value, err := env.ExecuteActivity(activity, contract.ModeInput{Mode: checkout.ModeLive})
	if err == nil {
		require.NoError(b.t, value.Get(&got))
	}
	return got, err
}

// until ends the time of an activity with a context.
func until(ctx context.Context) func(*testsuite.TestActivityEnvironment) {
	return func(env *testsuite.TestActivityEnvironment) {
		env.SetWorkerOptions(worker.Options{BackgroundActivityContext: ctx})
	}
}

// tries executes an activity of the books n times. Each one gets the last heartbeat of the one before.
func (b *liveBooks) tries(n int, of any) (errs []error) {
	var last converter.EncodedValues
	for range n {
		errs = append(errs, must.Err(run[int](b, of, func(env *testsuite.TestActivityEnvironment) {
			if last != nil {
				var at any
				require.NoError(b.t, last.Get(&at))
				env.SetHeartbeatDetails(at)
			}
			env.SetOnActivityHeartbeatListener(func(_ *activity.Info, at converter.EncodedValues) { last = at })
		})))
	}
	return errs
}

// change changes the account at the card network.
func (b *liveBooks) change(do func(*activities.Account)) {
	account := b.Accounts[checkout.ModeLive]
	do(&account)
	b.Accounts[checkout.ModeLive] = account
}

func (b *liveBooks) compare() activities.ReconcileChargesResult {
	return must.Get(run[activities.ReconcileChargesResult](b, b.ReconcileCharges))(b.t)
}

func (b *liveBooks) bookOld() { must.Get(run[int](b, b.BookOldCharges))(b.t) }

// findings returns the open findings, subject by kind.
func (b *liveBooks) findings() map[books.FindingKind]string {
	got := map[books.FindingKind]string{}
	for _, f := range must.Get(b.Store.Books.OpenFindings(b.t.Context(), checkout.ModeLive))(b.t) {
		got[f.Kind] = f.Subject
	}
	return got
}

func TestReconcileCharges_BooksThatAgree(t *testing.T) {
	b := newBooks(t)
	b.paid(checkout.OutcomeSucceeded)
	b.paid("") // it is being decided
	require.Equal(t, activities.ReconcileChargesResult{Charges: 2}, b.compare())
	require.Empty(t, b.findings())
}

// Such a charge should not exist. It is found and refunded once.
func TestReconcileCharges_AChargeWithoutASessionGoesBack(t *testing.T) {
	b := newBooks(t)
	c := b.paid(checkout.OutcomeFailed)
	for _, found := range []int{1, 0} {
		require.Equal(t, activities.ReconcileChargesResult{Charges: 1, Found: found}, b.compare(), "the second comparison finds the same")
	}
	require.Equal(t, map[books.FindingKind]string{books.FindingChargeUnmatched: c.Reference}, b.findings())

	b.away = errors.New("the network is away")
	require.Error(t, must.Err(b.sendRefunds()))
	b.away, b.answer = nil, checkout.RefundPending
	require.Equal(t, []activities.SendRefundResult{{Status: checkout.RefundPending, Waits: contract.RefundWaitsBank}}, must.Get(b.sendRefunds())(t))
	b.answer = checkout.RefundSucceeded
	require.Equal(t, []activities.SendRefundResult{{Status: checkout.RefundSucceeded}}, must.Get(b.sendRefunds())(t))
	require.Empty(t, must.Get(b.sendRefunds())(t))
	require.Len(t, b.refunds, 1)

	b.charges[0].Refunded = c.Amount
	b.compare()
	require.Empty(t, b.findings(), "the money is back: the finding is closed")
}

// The chain that may have paid the payout was not compared. The refund of an unmatched charge does not wait for it.
func TestSendRefund_WaitsForTheChain(t *testing.T) {
	b := newBooks(t)
	b.paid(checkout.OutcomeSucceeded)
	b.Exec(b.t, `INSERT INTO refund (id, mode, merchant_id, acquirer_ref, transaction_id, reason, status, created_at, amount)
		SELECT 're_1', mode, merchant_id, acquirer_ref, id, 'operator', 'pending', now(), 1050 FROM transaction`)
	unmatched := b.paid(checkout.OutcomeFailed)
	b.compare()
	require.Len(t, b.pending(), 2)

	require.ElementsMatch(t, []activities.SendRefundResult{
		{Status: checkout.RefundPending, Waits: contract.RefundWaitsTreasury}, {Status: checkout.RefundSucceeded},
	}, must.Get(b.sendRefunds())(t))
	require.Len(t, b.refunds, 1)
	require.Contains(t, b.refunds, unmatched.Reference)
	require.Equal(t, []checkout.Ref{b.owner.Ref("re_1")}, b.pending())
	due := storagetest.Value[time.Time](t, b.Database, `SELECT next_action_at FROM refund WHERE status = 'pending'`)
	require.WithinDuration(t, time.Now().Add(time.Minute), due, 10*time.Second, "a later run follows it")
}

// sendRefunds does what the runs of the pending refunds do.
func (b *liveBooks) sendRefunds() (all []activities.SendRefundResult, err error) {
	for _, ref := range b.pending() {
		got, failed := b.sendRefund(ref)
		all, err = append(all, got), errors.Join(err, failed)
	}
	return all, err
}

func (b *liveBooks) sendRefund(ref checkout.Ref) (got activities.SendRefundResult, err error) {
	payments := &activities.Payments{Refunds: b.Store.Refunds, Live: activities.Networks{
		Cards: map[checkout.Acquirer]checkout.CardNetwork{checkout.AcquirerStripe: b.Accounts[checkout.ModeLive]},
	}}
	env := (&testsuite.WorkflowTestSuite{}).NewTestActivityEnvironment()
	env.RegisterActivity(payments)
	value, err := env.ExecuteActivity(payments.SendRefund, ref)
	if err == nil {
		err = value.Get(&got)
	}
	return got, err
}

// pending returns the refunds that are not decided, oldest first.
func (b *liveBooks) pending() (all []checkout.Ref) {
	for _, id := range storagetest.Value[[]string](b.t, b.Database, `
		SELECT coalesce(array_agg(id ORDER BY id), '{}') FROM refund WHERE status = 'pending'`) {
		all = append(all, b.owner.Ref(id))
	}
	return all
}

// Only a person repeats a refund that failed.
func TestRefund_AnUnmatchedChargeIsRefundedAgain(t *testing.T) {
	b := newBooks(t)
	c := b.paid(checkout.OutcomeFailed)
	require.ErrorIs(t, must.Err(b.Store.Refunds.RefundUnmatched(t.Context(), c.TransactionID)), checkout.ErrNotFound, "it has had no refund")
	b.compare()
	first := must.Get(b.Store.Refunds.RefundUnmatched(t.Context(), c.TransactionID))(t)
	require.Equal(t, checkout.RefundPending, first.Status, "it is under way")
	b.answer = checkout.RefundFailed
	require.NoError(t, must.Err(b.sendRefunds()))
	require.Equal(t, first.ID, b.findings()[books.FindingRefundFailed])
	b.compare()
	require.Empty(t, b.pending())

	b.answer, b.refunds = checkout.RefundSucceeded, map[string]checkout.RefundResult{}
	require.Equal(t, checkout.RefundFailed, must.Get(b.sendRefund(first.Ref))(t).Status)
	require.Empty(t, b.refunds, "one that failed is not sent again")
	require.NotEqual(t, first.ID, must.Get(b.Store.Refunds.RefundUnmatched(t.Context(), c.TransactionID))(t).ID)
	require.NotContains(t, b.findings(), books.FindingRefundFailed)
	require.NoError(t, must.Err(b.sendRefunds()))
	require.Len(t, b.refunds, 1)
	require.Empty(t, b.ledger(), "its charge was never booked")
}

func TestReconcileCharges_FindsWhatDiffers(t *testing.T) {
	b := newBooks(t)
	amount, currency := b.paid(checkout.OutcomeSucceeded), b.paid(checkout.OutcomeSucceeded)
	b.charges[0].Amount, b.charges[1].Currency = 1051, money.USD
	require.Equal(t, 2, b.compare().Found)
	require.Contains(t, []string{amount.Reference, currency.Reference}, b.findings()[books.FindingChargeDiffers])
	require.Empty(t, b.refunds)
}

// A paid session looks like this after an old backup is restored, so nothing is refunded. Foreign charges are ignored.
func TestReconcileCharges_AChargeOfNoTransaction(t *testing.T) {
	b := newBooks(t)
	b.charges = []books.Charged{
		{Reference: "pi_lost", TransactionID: "txn_lost", Amount: 1, Currency: money.EUR, CreatedAt: time.Now().Add(-time.Hour)},
		{Reference: "pi_of_another_application", Amount: 1, Currency: money.EUR, CreatedAt: time.Now().Add(-time.Hour)},
	}
	require.Equal(t, 1, b.compare().Found)
	require.Equal(t, map[books.FindingKind]string{books.FindingChargeUnknown: "pi_lost"}, b.findings())
	require.Empty(t, b.pending())
}

func TestReconcileCharges_ANewChargeHasTime(t *testing.T) {
	b := newBooks(t)
	b.paid(checkout.OutcomeFailed)
	b.charges[0].CreatedAt = time.Now().Add(-5 * time.Minute)
	require.Zero(t, b.compare().Found)
}

func TestReconcileCharges_BooksWhatAChargeCost(t *testing.T) {
	b := newBooks(t)
	same, converted, later, declined := b.paid(checkout.OutcomeSucceeded), b.paid(checkout.OutcomeSucceeded), b.paid(checkout.OutcomeSucceeded), b.paid(checkout.OutcomeFailed)
	b.charges[0].Cost = &books.ChargeCost{Currency: money.EUR, Gross: 1050, Cost: 60}
	b.charges[1].Cost = &books.ChargeCost{Currency: money.USD, Gross: 1134, Cost: 63}
	b.charges[3].Cost = &books.ChargeCost{Currency: money.EUR, Gross: 1050, Cost: 60} // its amount goes back, and its fee does not
	b.compare()
	b.charges[0].Cost = &books.ChargeCost{Currency: money.EUR, Gross: 1050, Cost: 61}
	b.compare()
	booked := func(c books.Charged) []string {
		return storagetest.Value[[]string](t, b.Database, `
			SELECT array_agg(p.account || ' ' || p.asset || ' ' || p.amount ORDER BY p.account, p.asset)
			FROM ledger_entry e JOIN ledger_posting p ON p.entry_id = e.id
			WHERE e.subject = $1 AND e.kind = 'charge_cost' AND e.mode = 'live'`, c.TransactionID)
	}
	require.Equal(t, []string{"acquirer:balance EUR 990", "acquirer:receivable EUR -1050", "expense:acquirer EUR 60"}, booked(same), "the first answer, once")
	require.Equal(t, []string{
		"acquirer:balance USD 1071", "acquirer:receivable EUR -1050", "expense:acquirer USD 63", "fx EUR 1050", "fx USD -1134",
	}, booked(converted))
	require.Empty(t, booked(later), "not known yet")
	require.Equal(t, []string{"acquirer:balance EUR -60", "expense:acquirer EUR 60"}, booked(declined), "once")
	b.charges[2].Cost = &books.ChargeCost{Currency: money.EUR, Gross: 1050, Cost: 60}
	b.compare()
	require.Len(t, booked(later), 3)
	b.charges[2].Cost = nil
	b.compare()
	require.Len(t, booked(later), 3)
}

func TestReconcileCharges_AnOddCostIsFoundAndStopsNothing(t *testing.T) {
	b := newBooks(t)
	odd := b.paid(checkout.OutcomeSucceeded)
	b.paid(checkout.OutcomeSucceeded)
	b.charges[0].Cost = &books.ChargeCost{Currency: money.EUR, Gross: 1050, Cost: -1}
	require.Equal(t, 2, b.compare().Charges, "the other charge is compared too")
	require.Equal(t, map[books.FindingKind]string{books.FindingChargeDiffers: odd.Reference}, b.findings())
	b.charges[0].Cost.Cost = 60
	b.compare()
	require.Empty(t, b.findings())
}

// The acquirer may report that later than the cost.
func TestReconcileCharges_StoresWhenTheMoneyIsAvailable(t *testing.T) {
	b := newBooks(t)
	known, later := b.paid(checkout.OutcomeSucceeded), b.paid(checkout.OutcomeSucceeded)
	at := time.Date(2026, 11, 24, 0, 0, 0, 0, time.UTC)
	b.charges[0].Cost = &books.ChargeCost{Currency: money.EUR, Gross: 1050, Cost: 60, AvailableAt: at}
	b.charges[1].Cost = &books.ChargeCost{Currency: money.EUR, Gross: 1050, Cost: 60}
	b.compare()
	require.Equal(t, at, *b.availableAt(known))
	require.Nil(t, b.availableAt(later))
	for _, when := range []time.Time{at, at.Add(time.Hour)} {
		b.charges[1].Cost.AvailableAt = when
		b.compare()
		require.Equal(t, at, *b.availableAt(later), "the first answer stays")
	}
}

// A charge that the network booked only after it was too old to be compared would hold its merchant's payouts for ever.
func TestBookOldCharges_AsksAgainAboutAnOldCharge(t *testing.T) {
	b := newBooks(t)
	old, missing, declined := b.paid(checkout.OutcomeSucceeded), b.paid(checkout.OutcomeSucceeded), b.paid(checkout.OutcomeFailed)
	b.Exec(b.t, `UPDATE transaction SET completed_at = completed_at - interval '49 hours'`)
	at := time.Date(2026, 11, 24, 0, 0, 0, 0, time.UTC)
	old.Cost = &books.ChargeCost{Currency: money.EUR, Gross: 1050, Cost: 60, AvailableAt: at}
	declined.Cost = old.Cost
	b.charges, b.old = nil, map[string]books.Charged{old.Reference: old, declined.Reference: declined}
	b.bookOld()
	require.Equal(t, at, *b.availableAt(old))
	require.Nil(t, b.availableAt(missing), "the network does not know it")
	require.Nil(t, b.availableAt(declined))
	late := missing
	b.old[late.Reference] = late
	b.bookOld()
	require.Equal(t, map[books.FindingKind]string{books.FindingChargeLate: late.TransactionID}, b.findings())
	late.Cost = old.Cost
	b.old[late.Reference] = late
	b.bookOld()
	require.Empty(t, b.findings())
	b.old = nil
	b.bookOld()
	require.Equal(t, at, *b.availableAt(old))
}

// The network lacks the charges of the first page, and has the last charge.
func TestBookOldCharges_AsksAboutEachOldCharge(t *testing.T) {
	b := newBooks(t)
	for range 101 {
		b.paid(checkout.OutcomeSucceeded)
	}
	b.Exec(b.t, `UPDATE transaction SET completed_at = completed_at - interval '49 hours'`)
	last := slices.MaxFunc(b.charges, func(x, y books.Charged) int { return strings.Compare(x.Reference, y.Reference) })
	last.Cost = &books.ChargeCost{Currency: money.EUR, Gross: 1050, Cost: 60, AvailableAt: time.Now()}
	b.charges, b.old = nil, map[string]books.Charged{last.Reference: last}
	b.bookOld()
	require.NotNil(t, b.availableAt(last))
}

// The place of the comparison comes back with the backup. It is as old as the rows, however long ago that is.
func TestReconcileCharges_AfterALongOutageFindsTheLostTime(t *testing.T) {
	b := newBooks(t)
	b.compare()
	const away = 9 * 24 * time.Hour
	b.Exec(b.t, `UPDATE acquirer_comparison SET compared_to = compared_to - interval '9 days', read_to = read_to - interval '9 days'`)
	unmatched := b.paid(checkout.OutcomeFailed)
	b.charges[0].CreatedAt = time.Now().Add(-away + time.Hour)
	b.charges = append(b.charges, books.Charged{
		Reference: "pi_lost", TransactionID: "txn_lost", Amount: 1, Currency: money.EUR, CreatedAt: time.Now().Add(-away / 2),
	})
	b.moved = map[time.Time]books.Movement{time.Now().Add(-away / 3): {
		ID: "txn_bank", Kind: books.MovementBank, Category: "payout", Currency: money.EUR, Amount: -4000,
	}}
	require.Equal(t, activities.ReconcileChargesResult{Charges: 2, Found: 2}, b.compare())
	require.Equal(t, map[books.FindingKind]string{
		books.FindingChargeUnmatched: unmatched.Reference, books.FindingChargeUnknown: "pi_lost",
	}, b.findings())
	require.Equal(t, map[string]string{"acquirer:balance": "-4000", "bank": "4000"}, b.ledger())
	require.Zero(t, b.compare().Charges, "the lost time is compared once")
}

// A list that takes longer than a try is compared by several tries.
func TestReconcileCharges_GoesOnWhereItEnded(t *testing.T) {
	b := newBooks(t)
	for _, age := range []time.Duration{40 * time.Hour, 20 * time.Hour, time.Hour} {
		b.paid(checkout.OutcomeSucceeded)
		b.charges[len(b.charges)-1].CreatedAt = time.Now().Add(-age)
	}
	place := func() time.Duration {
		got := must.Get(b.Store.Books.Comparison(t.Context(), checkout.ModeLive))(t)
		require.Equal(t, got.ComparedTo, got.ReadTo, "the round came to its end")
		return time.Since(got.ComparedTo).Round(time.Hour)
	}
	b.awayTo = time.Now().Add(-47 * time.Hour)
	require.Error(t, must.Err(run[activities.ReconcileChargesResult](b, b.ReconcileCharges)))
	require.Equal(t, 48*time.Hour, place(), "a part that failed is compared again")
	b.awayTo = time.Time{}

	b.Exec(b.t, `UPDATE acquirer_comparison SET compared_to = now() - interval '49 hours', read_to = now() - interval '24 hours'`)
	require.Equal(t, 2, b.compare().Charges, "the charge before the place is read")
	require.Equal(t, 49*time.Hour, place(), "what was read before may have changed")
	require.Equal(t, 3, b.compare().Charges)
	require.Equal(t, 48*time.Hour, place(), "what may still change is compared again")
	require.Equal(t, 3, b.compare().Charges)

	b.Exec(b.t, `UPDATE acquirer_comparison SET compared_to = now() + interval '100 years', read_to = now() + interval '100 years'`)
	b.compare()
	require.Equal(t, 48*time.Hour, place(), "a clock that was wrong hides nothing for long")
}

// The parts behind it are compared, and the next round begins with it.
func TestReconcileCharges_ThePlaceWaitsForAPartThatFails(t *testing.T) {
	for age, latest := range map[time.Duration]time.Duration{5 * 24 * time.Hour: 5 * 24 * time.Hour, 20 * time.Hour: 48 * time.Hour} {
		t.Run(age.String(), func(t *testing.T) {
			b := newBooks(t)
			b.compare()
			b.Exec(b.t, `UPDATE acquirer_comparison SET compared_to = compared_to - interval '9 days', read_to = read_to - interval '9 days'`)
			now, behind := time.Now(), b.paid(checkout.OutcomeFailed)
			b.change(func(account *activities.Account) {
				succeeded, odd := account.Succeeded, now.Add(-age)
				account.Succeeded = func(ctx context.Context, since, until time.Time) iter.Seq2[books.Charged, error] {
					if !odd.Before(since) && odd.Before(until) {
						return func(yield func(books.Charged, error) bool) {
							yield(books.Charged{}, errors.New("one charge is odd"))
						}
					}
					return succeeded(ctx, since, until)
				}
			})
			for range 2 {
				require.Error(t, must.Err(run[activities.ReconcileChargesResult](b, b.ReconcileCharges)))
				got := must.Get(b.Store.Books.Comparison(t.Context(), checkout.ModeLive))(t)
				require.WithinRange(t, got.ComparedTo, now.Add(-latest-6*time.Hour), now.Add(-latest+time.Minute))
				require.Equal(t, got.ComparedTo, got.ReadTo)
			}
			require.Equal(t, map[books.FindingKind]string{books.FindingChargeUnmatched: behind.Reference}, b.findings())
		})
	}
}

// An endless list does not hold them up.
func TestReconcileCharges_TheSumsComeFirst(t *testing.T) {
	b := newBooks(t)
	b.paid(checkout.OutcomeSucceeded)
	b.Exec(b.t, `UPDATE transaction SET settled = 1`) // no entry tells it
	listed := 0
	b.change(func(account *activities.Account) {
		account.Succeeded = func(context.Context, time.Time, time.Time) iter.Seq2[books.Charged, error] {
			listed++
			require.Contains(t, b.findings(), books.FindingLedgerDiffers)
			return func(func(books.Charged, error) bool) {}
		}
	})
	b.compare()
	require.NotZero(t, listed)
}

func TestReconcileCharges_JudgesLiveMerchants(t *testing.T) {
	b := newBooks(t)
	b.paid(checkout.OutcomeFailed)
	b.charges = nil
	b.Limits = storage.MerchantLimits{Declined: 2}
	require.Equal(t, activities.ReconcileChargesResult{}, b.compare())
	b.Limits.Declined = 1
	require.Equal(t, activities.ReconcileChargesResult{Found: 1}, b.compare())
	require.Equal(t, map[books.FindingKind]string{books.FindingCardTesting: b.owner.MerchantID}, b.findings())
}

// The charge is in another part of the list than its decision.
func TestReconcileCharges_AChargeThatBeganLongBefore(t *testing.T) {
	b := newBooks(t)
	early, missing, untaken := b.paid(checkout.OutcomeSucceeded), b.paid(checkout.OutcomeSucceeded), b.paid(checkout.OutcomeSucceeded)
	b.Exec(b.t, `UPDATE transaction SET completed_at = completed_at - interval '1 hour'`)
	b.charges = nil
	untaken.Amount = 0 // the intent is there, and took no money
	b.old = map[string]books.Charged{early.Reference: early, untaken.Reference: untaken}
	require.Equal(t, 2, b.compare().Found)
	require.Contains(t, []string{missing.TransactionID, untaken.TransactionID}, b.findings()[books.FindingChargeMissing])
}

// The next try of an activity goes on behind them, and the next round begins with them.
func TestBooks_ChargesThatFailHoldUpNoOther(t *testing.T) {
	for name, of := range map[string]func(*liveBooks) any{
		"LookAtCharges": func(b *liveBooks) any { return b.LookAtCharges }, "BookOldCharges": func(b *liveBooks) any { return b.BookOldCharges },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBooks(t)
			all := make([]books.Charged, 14)
			for i := range all {
				all[i] = b.paid(checkout.OutcomeSucceeded)
				b.atRisk(all[i])
			}
			b.Exec(b.t, `UPDATE transaction SET completed_at = completed_at - interval '50 hours'`)
			slices.SortFunc(all, func(x, y books.Charged) int { return strings.Compare(x.Reference, y.Reference) })
			last := all[13]
			last.Cost = &books.ChargeCost{Currency: money.EUR, Gross: 1050, Cost: 60, AvailableAt: time.Now()}
			asked := map[string]int{}
			answer := func(reference string) error {
				if asked[reference]++; reference < last.Reference {
					return errors.New("the network cannot answer about it")
				}
				return nil
			}
			b.change(func(account *activities.Account) {
				account.Risks = func(_ context.Context, reference string) ([]books.ChargeRisk, error) { return nil, answer(reference) }
				account.Charged = func(_ context.Context, reference string) (books.Charged, error) { return last, answer(reference) }
			})

			for try, err := range b.tries(3, of(b)) {
				require.Equal(t, try == 2, err == nil, "%s, %d: %v", name, try, err)
			}
			for _, c := range all {
				require.Equal(t, 1, asked[c.Reference], name)
			}
			require.Equal(t, name == "BookOldCharges", b.availableAt(last) != nil)
			require.Error(t, must.Err(run[int](b, of(b))))
			require.Equal(t, 2, asked[all[0].Reference])
		})
	}
}

// The network answers about no old charge.
func TestReconcileCharges_OldChargesHoldUpNoList(t *testing.T) {
	b := newBooks(t)
	b.paid(checkout.OutcomeSucceeded)
	b.Exec(b.t, `UPDATE transaction SET completed_at = completed_at - interval '50 hours'`)
	b.charges = nil
	unmatched := b.paid(checkout.OutcomeFailed)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	b.change(func(account *activities.Account) {
		account.Charged = func(ctx context.Context, _ string) (books.Charged, error) {
			<-ctx.Done()
			return books.Charged{}, ctx.Err()
		}
	})
	require.NoError(t, must.Err(run[activities.ReconcileChargesResult](b, b.ReconcileCharges, until(ctx))))
	require.Equal(t, map[books.FindingKind]string{books.FindingChargeUnmatched: unmatched.Reference}, b.findings())
}

// No round comes to its end here.
func TestReconcileCharges_WhatMayStillChangeIsComparedAgain(t *testing.T) {
	b := newBooks(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	b.change(func(account *activities.Account) {
		succeeded := account.Succeeded
		account.Succeeded = func(_ context.Context, since, until time.Time) iter.Seq2[books.Charged, error] {
			if until.After(time.Now()) {
				cancel() // the worker stops
			}
			return succeeded(ctx, since, until)
		}
	})
	require.Error(t, must.Err(run[activities.ReconcileChargesResult](b, b.ReconcileCharges, until(ctx))))
	place := storagetest.Value[time.Time](t, b.Database, `SELECT compared_to FROM acquirer_comparison`)
	require.GreaterOrEqual(t, time.Since(place), 48*time.Hour)
}

// A later try compares it in shorter parts.
func TestReconcileCharges_APartThatIsTooLongForATry(t *testing.T) {
	b := newBooks(t)
	b.compare()
	b.Exec(b.t, `UPDATE acquirer_comparison SET compared_to = compared_to - interval '9 days', read_to = read_to - interval '9 days'`)
	var stop context.CancelFunc
	b.change(func(account *activities.Account) {
		succeeded := account.Succeeded
		account.Succeeded = func(ctx context.Context, since, until time.Time) iter.Seq2[books.Charged, error] {
			if until.Sub(since) > time.Hour {
				stop() // the time of the try is over
			}
			return succeeded(ctx, since, until)
		}
	})
	place := func() time.Time {
		return storagetest.Value[time.Time](t, b.Database, `SELECT compared_to FROM acquirer_comparison`)
	}
	begin := place()
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		stop = cancel
		require.Error(t, must.Err(run[activities.ReconcileChargesResult](b, b.ReconcileCharges, until(ctx))))
		cancel()
	}
	require.Equal(t, 3*time.Hour, place().Sub(begin))
}
