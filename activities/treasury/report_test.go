package treasury_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/storage"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/books"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/money"
)

func (f fixture) paidBy(t *testing.T, payout checkout.Ref) string {
	return f.read(t, payout).TransactionID
}

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
	require.NoError(t, f.Store.Books.RecordChargeCost(ctx, checkout.ModeLive, f.paidBy(t, confirmed), books.ChargeCost{Currency: money.EUR, Gross: 10_000, Cost: 320}))
	require.NoError(t, f.Store.Books.RecordChargeCost(ctx, checkout.ModeLive, f.paidBy(t, sent), books.ChargeCost{Currency: money.USD, Gross: 21_600, Cost: 700}))
	require.NoError(t, f.Store.Books.RecordChargeCost(ctx, checkout.ModeLive, f.paidBy(t, waiting), books.ChargeCost{Currency: money.EUR, Gross: 5_000, Cost: 175}))

	require.NoError(t, f.Store.Books.CreateRefund(ctx, books.Refund{Mode: checkout.ModeLive, Reference: "pi_unknown", Reason: books.RefundUnmatched}))
	for _, id := range []string{"evt_1", "evt_2"} { // twice the same
		_, err := f.Store.Books.StoreAcquirerEvent(ctx, books.AcquirerEvent{ID: id, Mode: checkout.ModeLive, Type: "charge.dispute.created",
			ObjectID: "dp_1", Reference: f.paidBy(t, unknown), CreatedAt: time.Now()})
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
	require.Equal(t, []storage.RefundDay{{Reason: books.RefundUnmatched, Status: checkout.RefundPending, Refunds: 1}}, got.Refunds)
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
func (f fixture) float(t *testing.T, currency money.PayoutCurrency) (got storage.Float) {
	all := must.Get(f.Store.Treasury.Floats(t.Context(), checkout.ModeLive))(t)
	require.Equal(t, f.day(t, 0).Floats, all)
	for _, one := range all {
		if one.Balance.Currency() == currency {
			got = one
		}
	}
	return got
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
