package treasury_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
)

// float returns the float of a currency, which the report of the day shows too.
func (f fixture) float(t *testing.T, currency money.PayoutCurrency) (got storage.Float) {
	t.Helper()
	all := must(f.Store.Treasury.Floats(t.Context(), checkout.ModeLive))(t)
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
	f.StuckAfter = time.Hour // no fee is raised, so the gas is known
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
	test := must(f.Store.Treasury.Floats(t.Context(), checkout.ModeTest))(t)
	require.Empty(t, test)
}
