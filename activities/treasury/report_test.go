package treasury_test

import (
	"context"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"

	"example.com/checkout/activities"
	"example.com/checkout/storage"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/books"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/contract"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/money"
)

// day returns the daily report, counted from today.
func (f fixture) day(t *testing.T, days int) storage.DayReport {
	from := time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, days)
	return must.Get(f.Store.Books.DayReport(t.Context(), from))(t)
}

// today moves everything of the test into one day: midnight may pass while it runs.
func (f fixture) today(t *testing.T) {
	f.Exec(t, `
		SET session_replication_role = replica;
		UPDATE transaction SET completed_at = now(); UPDATE payout SET created_at = now();
		UPDATE refund SET created_at = now(); UPDATE acquirer_event SET received_at = now();
		UPDATE ledger_entry SET created_at = now()`)
}

func TestDayReport_OfAKnownDay(t *testing.T) {
	f := newFixture(t)
	ctx := t.Context()
	f.settle(t) // the wallets are funded
	plan := func(owner checkout.Owner, p merchant.Plan) {
		_, err := f.Store.Merchants.ChangeMerchant(ctx, storage.MerchantChange{MerchantID: owner.MerchantID, Plan: &p, By: merchant.AuditEntry{
			ID: checkout.NewID(checkout.PrefixAuditEntry), MerchantID: owner.MerchantID, Actor: "operator", Action: "merchant.changed", Subject: owner.MerchantID}})
		require.NoError(t, err)
	}
	growth := f.merchant(t, "0xOther")
	plan(growth, merchant.Plan{Name: "growth", FeeBasisPoints: 80})
	confirmed := f.usdc(t)
	f.send(t, confirmed)
	f.settle(t)
	f.settle(t)
	sent := f.payout(t, growth, 20_000, money.USDC)
	f.send(t, sent)
	waiting := f.payout(t, growth, 5_000, money.ETH)
	plan(f.owner, merchant.Plan{Name: "with a fixed part", FeeBasisPoints: 290, FeeFixed: 30})
	unknown := f.payout(t, f.owner, 1_000, money.ETH)
	require.NoError(t, f.Store.Books.RecordChargeCost(ctx, checkout.ModeLive, f.read(t, confirmed).TransactionID, books.ChargeCost{Currency: money.EUR, Gross: 10_000, Cost: 320}))
	require.NoError(t, f.Store.Books.RecordChargeCost(ctx, checkout.ModeLive, f.read(t, sent).TransactionID, books.ChargeCost{Currency: money.USD, Gross: 21_600, Cost: 700}))
	require.NoError(t, f.Store.Books.RecordChargeCost(ctx, checkout.ModeLive, f.read(t, waiting).TransactionID, books.ChargeCost{Currency: money.EUR, Gross: 5_000, Cost: 175}))

	require.NoError(t, f.Store.Refunds.CreateRefund(ctx, checkout.Refund{
		Ref: checkout.Owner{Mode: checkout.ModeLive}.Ref(""), Reference: "pi_unknown", Origin: checkout.RefundUnmatched,
	}))
	for _, id := range []string{"evt_1", "evt_2"} { // twice the same
		_, err := f.Store.Books.StoreAcquirerEvent(ctx, books.AcquirerEvent{ID: id, Mode: checkout.ModeLive, Type: "charge.dispute.created",
			ObjectID: "dp_1", Reference: f.read(t, unknown).TransactionID, CreatedAt: time.Now()})
		require.NoError(t, err)
	}
	require.NoError(t, must.Err(f.Store.Books.OpenFinding(ctx, books.Finding{Mode: checkout.ModeLive, Kind: books.FindingChargeUnknown, Subject: "pi_x", Detail: "A charge."})))
	f.today(t)

	got := f.day(t, 0)
	require.Equal(t, []storage.PlanDay{
		{Plan: "growth", FeeBasisPoints: 80, Currency: money.EUR, Charges: 2, Sum: 25_000, Earned: 200, Cost: 648 + 175},
		{Plan: "standard", FeeBasisPoints: 100, Currency: money.EUR, Charges: 1, Sum: 10_000, Earned: 100, Cost: 320},
		{Plan: "with a fixed part", FeeBasisPoints: 290, FeeFixed: 30, Currency: money.EUR, Charges: 1, Sum: 1_000, Earned: 59, CostUnknown: 1},
	}, got.Plans)
	require.Equal(t, "-6.23", got.Plans[0].Margin().String(), "the charges cost more than they earned")
	booked := map[string]string{}
	for _, b := range got.Booked {
		booked[b.Account+" "+b.Asset] = b.Amount
	}
	require.Equal(t, "-3.59", booked["revenue:fee EUR"])
	require.Equal(t, "4.95", booked["expense:acquirer EUR"])
	require.Equal(t, "7.00", booked["expense:acquirer USD"])
	require.Equal(t, "209.00", booked["acquirer:balance USD"])
	require.Equal(t, "10.00", booked["acquirer:receivable EUR"])
	require.Equal(t, "-0.500000", booked["revenue:network_fee USDC"])
	require.Equal(t, "0.000252000000000000", booked["expense:gas ETH"])
	require.Equal(t, []storage.RefundDay{{Reason: checkout.RefundUnmatched, Status: checkout.RefundPending, Refunds: 1}}, got.Refunds)
	require.Equal(t, []storage.DisputeDay{{Type: "charge.dispute.created", Currency: money.EUR, Disputes: 1, Sum: 1_000}}, got.Disputes)
	require.Equal(t, []storage.PayoutDay{
		{State: "confirmed", Currency: money.USDC, SourceCurrency: money.EUR, Payouts: 1, Source: 9_900, Sum: "106.670000"},
		{State: "pending", Currency: money.ETH, SourceCurrency: money.EUR, Payouts: 2, Source: 4_960 + 941, Sum: "0"},
		{State: "sent", Currency: money.USDC, SourceCurrency: money.EUR, Payouts: 1, Source: 19_840, Sum: "214.022000"},
	}, got.Payouts)
	require.Len(t, got.Findings, 1)
	require.True(t, got.Agrees(), "%+v", got.Checks)
	require.Len(t, got.Checks, 5+3+1, "the sum of each asset, the wallet's currencies, the acquirer")

	for _, days := range []int{-1, 1} {
		other := f.day(t, days)
		require.Empty(t, other.Plans)
		require.Empty(t, other.Booked)
		require.Empty(t, other.Refunds)
		require.Empty(t, other.Disputes)
		require.Empty(t, other.Payouts)
		require.Equal(t, got.Checks, other.Checks, "the ledger is as it is now")
	}
}

func TestDayReport_ShowsASabotagedLedger(t *testing.T) {
	f := newFixture(t)
	f.settle(t)
	f.send(t, f.usdc(t))
	f.settle(t)
	f.settle(t)
	require.True(t, f.day(t, 0).Agrees())
	wallet := f.query(t, `SELECT id FROM treasury_account`).(string)

	// post books against an account that no check looks at, and one-sided when against is "".
	post := func(subject, account, holder, asset, amount, against string) {
		f.Exec(t, `SET session_replication_role = replica;
			WITH e AS (INSERT INTO ledger_entry (mode, kind, subject, generation) VALUES ('live', 'sabotage', '`+subject+`', 1) RETURNING id)
			INSERT INTO ledger_posting (entry_id, mode, account, holder, asset, amount)
			SELECT e.id, 'live', p.account, p.holder, '`+asset+`', p.amount FROM e, (VALUES
				('`+account+`', '`+holder+`', `+amount+`), ('`+against+`', '', -(`+amount+`))) p (account, holder, amount) WHERE p.account <> ''`)
	}
	differences := func() (got []string) {
		for _, c := range f.day(t, 0).Checks {
			if !c.Agrees() {
				got = append(got, c.What+" "+c.Asset+" "+c.Difference)
			}
		}
		slices.Sort(got)
		return got
	}
	post("1", "acquirer:receivable", "", "EUR", "1234", "suspense")
	require.Equal(t, []string{"acquirer:receivable EUR 12.34"}, differences())
	post("2", "wallet", wallet, "USDT", "-5000000", "suspense")
	require.Equal(t, []string{"acquirer:receivable EUR 12.34", "wallet " + wallet + " USDT -5.000000"}, differences())
	post("3", "suspense", "", "GBP", "7", "")
	require.Equal(t, []string{"acquirer:receivable EUR 12.34", "sum of all accounts GBP 0.07", "wallet " + wallet + " USDT -5.000000"}, differences())
}

// float returns the float of a currency, which the report of the day shows too.
func (f fixture) float(t *testing.T, currency money.PayoutCurrency) storage.Float {
	all := must.Get(f.Store.Treasury.Floats(t.Context(), checkout.ModeLive))(t)
	require.Equal(t, f.day(t, 0).Floats, all)
	return all[slices.IndexFunc(all, func(one storage.Float) bool { return one.Balance.Currency() == currency })]
}

func TestFloats_SayHowLongTheMoneyLasts(t *testing.T) {
	f := newFixture(t)
	f.settle(t)
	got := f.float(t, money.USDC)
	require.Equal(t, "1000000.000000 0.000000 0.000000 –", got.Balance.String()+" "+got.Live.String()+" "+got.Pending.String()+" "+got.DaysLeft())

	f.send(t, f.usdc(t)) // 106.67 USDC
	f.settle(t)
	got = f.float(t, money.USDC)
	require.Equal(t, "999893.330000 9373.7", got.Balance.String()+" "+got.DaysLeft(), "an account of today has one day")
	eth := f.float(t, money.ETH)
	require.NotEqual(t, "–", eth.DaysLeft(), "the network took its fee")
	require.Equal(t, "–", f.float(t, money.USDT).DaysLeft())

	f.usdc(t) // 106.92 USDC before the fee
	got = f.float(t, money.USDC)
	require.Equal(t, "106.920000", got.Pending.String())
	f.send(t, f.usdc(t))
	f.sync(t)
	got = f.float(t, money.USDC)
	require.Equal(t, "999893.330000 106.670000 106.920000", got.Balance.String()+" "+got.Live.String()+" "+got.Pending.String())
	require.Equal(t, "4685.9", got.DaysLeft(), "(999893.33 - 106.67 - 106.92) / (2 * 106.67)")
	f.Exec(t, `UPDATE treasury_account SET created_at = now() - interval '30 days'`)
	require.Equal(t, "32801.0", f.float(t, money.USDC).DaysLeft(), "the average of 7 days")

	f.Exec(t, `UPDATE payout SET source_amount = 100000000000 WHERE status = 'pending'`)
	require.Equal(t, "0.0", f.float(t, money.USDC).DaysLeft(), "more waits than there is")
	f.Exec(t, `UPDATE transfer SET created_at = now() - interval '8 days'`)
	require.Equal(t, "–", f.float(t, money.USDC).DaysLeft())
	require.Empty(t, must.Get(f.Store.Treasury.Floats(t.Context(), checkout.ModeTest))(t))
}

// planted are books in which something is made to differ. They have one charge, whose payout is confirmed.
type planted struct {
	fixture

	charges []books.Charged // what the card network lists
}

func newPlanted(t *testing.T) *planted {
	p := &planted{fixture: newFixture(t)}
	p.settle(t)
	ref := p.usdc(t)
	p.send(t, ref)
	p.settle(t)
	id := p.read(t, ref).TransactionID
	p.Exec(t, `UPDATE transaction SET completed_at = completed_at - interval '1 hour'`)
	p.charges = []books.Charged{{
		Reference: id, TransactionID: id, Amount: 10_000, Currency: money.EUR, CreatedAt: time.Now().Add(-time.Hour),
		Cost: &books.ChargeCost{Currency: money.EUR, Gross: 10_000, Cost: 320, AvailableAt: time.Now()},
	}}
	return p
}

// reconcile runs a round, compares the books, and returns the day's findings with their details.
func (p *planted) reconcile(t *testing.T) (kinds map[books.FindingKind]string, report storage.DayReport) {
	p.sync(t)
	env := (&testsuite.WorkflowTestSuite{}).NewTestActivityEnvironment()
	entries := &activities.Books{Store: p.Store.Books, Accounts: map[checkout.Mode]activities.Account{checkout.ModeLive: {
		Movements: func(context.Context, time.Time, time.Time) iter.Seq2[books.Movement, error] {
			return func(func(books.Movement, error) bool) {}
		},
		Succeeded: func(_ context.Context, since, until time.Time) iter.Seq2[books.Charged, error] {
			return func(yield func(books.Charged, error) bool) {
				for _, c := range p.charges {
					if !c.CreatedAt.Before(since) && c.CreatedAt.Before(until) && !yield(c, nil) {
						return
					}
				}
			}
		},
		Charged: func(context.Context, string) (books.Charged, error) {
			return books.Charged{}, checkout.ErrNotFound
		},
	}}}
	env.RegisterActivity(entries)
	require.NoError(t, must.Err(env.ExecuteActivity(entries.ReconcileCharges, contract.ModeInput{Mode: checkout.ModeLive})))
	report = p.day(t, 0)
	kinds = map[books.FindingKind]string{}
	for _, f := range report.Findings {
		kinds[f.Kind] = f.Detail
	}
	require.Len(t, kinds, len(report.Findings), "each once")
	return kinds, report
}

// without hides rows of the ledger, and returns what puts them back.
func (p *planted) without(t *testing.T, kind string) (back func(*testing.T)) {
	const quiet = `SET session_replication_role = replica; `
	p.Exec(t, quiet+`CREATE TABLE gone_entry AS SELECT * FROM ledger_entry WHERE kind = '`+kind+`';
		CREATE TABLE gone_posting AS SELECT p.* FROM ledger_posting p JOIN gone_entry e ON e.id = p.entry_id;
		DELETE FROM ledger_posting WHERE entry_id IN (SELECT id FROM gone_entry);
		DELETE FROM ledger_entry WHERE id IN (SELECT id FROM gone_entry)`)
	return func(t *testing.T) {
		p.Exec(t, quiet+`INSERT INTO ledger_entry OVERRIDING SYSTEM VALUE SELECT * FROM gone_entry;
			INSERT INTO ledger_posting SELECT * FROM gone_posting`)
	}
}

// Each difference is found by its name, shown by the report, and closed when its cause is gone.
func TestReconcile_FindsWhatIsPlanted(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		plant func(*testing.T, *planted) (remove func(*testing.T))
		found map[books.FindingKind]string // a part of the detail
	}{
		"a fee that changed": {
			func(_ *testing.T, p *planted) func(*testing.T) {
				was := p.charges[0].Cost
				p.charges[0].Cost = &books.ChargeCost{Currency: money.EUR, Gross: 10_000, Cost: 321}
				return func(*testing.T) { p.charges[0].Cost = was }
			}, map[books.FindingKind]string{books.FindingCostDiffers: "3.20 of 100.00 EUR are booked"},
		},
		"an entry missing": {
			func(t *testing.T, p *planted) func(*testing.T) { return p.without(t, "charge") },
			map[books.FindingKind]string{books.FindingLedgerDiffers: "The ledger has -100.00 EUR, and should have 0.00 EUR."},
		},
		"an outflow that we did not make": {
			func(t *testing.T, p *planted) func(*testing.T) {
				p.chain.foreign(t, 1, 5_000_000)
				p.chain.mine(5)
				p.Exec(t, `UPDATE treasury_account SET next_nonce = 2`) // as if an old backup lacked the transfer
				return p.thaw
			}, map[books.FindingKind]string{books.FindingTreasuryFrozen: "no transfer explains the transaction"},
		},
		"an inflow reorganized away": {
			func(t *testing.T, p *planted) func(*testing.T) {
				inflow := func(t *testing.T) {
					p.chain.take(money.USDT, -70_000_000)
					p.sync(t)
					p.chain.mine(4)
				}
				inflow(t)
				require.Equal(t, "-1000000000000", p.ledger(t)["funding USDT"], "it is booked at final depth")
				p.sync(t)
				require.Equal(t, "-1000070000000", p.ledger(t)["funding USDT"])
				p.chain.undo(7) // all blocks with it
				p.chain.mine(8)
				return func(t *testing.T) {
					inflow(t)
					p.thaw(t)
				}
			}, map[books.FindingKind]string{books.FindingLedgerDiffers: "1000070.000000 USDT, and should have 1000000",
				books.FindingTreasuryFrozen: "below the ledger by 70.000000 USDT"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlanted(t)
			kinds, report := p.reconcile(t)
			require.Empty(t, kinds)
			require.True(t, report.Agrees(), "%+v", report.Checks)

			remove := c.plant(t, p)
			for range 2 {
				kinds, _ = p.reconcile(t)
				require.Len(t, kinds, len(c.found), "%v", kinds)
				for kind, says := range c.found {
					require.Contains(t, kinds[kind], says)
				}
			}
			remove(t)
			p.chain.mine(1)
			kinds, report = p.reconcile(t)
			require.Empty(t, kinds)
			require.True(t, report.Agrees(), "%+v", report.Checks)
		})
	}
}
