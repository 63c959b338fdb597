package treasury_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	treasurer "example.com/checkout/activities/treasury"
	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
)

// A merchant's contract accepts ether until the signature, and then burns the treasury's gas: the retry pays less.
func TestTransfer_BurntGasIsTakenOffTheRetry(t *testing.T) {
	f := newFixture(t)
	f.chain.reverts["0xMerchant"] = true
	ref := f.payout(t, f.owner, 20_000, money.ETH)
	f.send(t, ref)
	first := f.read(t, ref)
	f.chain.mine(f.chain.finality + 1)
	require.Equal(t, 1, f.sync(t).Reverted)
	require.EqualValues(t, "0.000252", f.query(t, `SELECT trim_scale(cost)::text FROM transfer WHERE status = 'reverted'`))

	f.retry(t, ref, "0xGood")
	f.confirms(t, ref)
	second := f.read(t, ref)
	require.Equal(t, []string{"0.000100000000000000", "0.000352000000000000"}, []string{first.Fee.String(), second.Fee.String()})
	require.Equal(t, first.Amount.Add(first.Fee), second.Amount.Add(second.Fee))
	f.requireBooked(t)
}

// One round ends two transfers that paid nothing. The gas that the other burnt is not mistaken for a payment.
func TestSync_TransfersThatPaidNothingDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	for _, cancels := range []bool{false, true} {
		f := newSerialFixture(t)
		f.sync(t)
		owner := f.merchant(t, "0xBurner")
		f.chain.reverts["0xBurner"] = !cancels
		var refs []checkout.Ref
		for _, currency := range []money.PayoutCurrency{money.ETH, money.ETH, money.USDC} {
			ref := f.payout(t, owner, 20_000, currency)
			f.send(t, ref)
			refs = append(refs, ref)
		}
		if cancels {
			f.Exec(t, `UPDATE transfer SET cancel_at = now()`)
			require.Equal(t, 3, f.sync(t).Bumped)
		}
		f.chain.mine(f.chain.finality + 1)
		got := f.sync(t)
		require.Equal(t, 3, got.Reverted+got.Canceled)
		require.Empty(t, got.Frozen)
		for _, ref := range refs {
			require.Equal(t, checkout.PayoutFailed, f.read(t, ref).Status)
		}
		f.sync(t)
		f.requireBooked(t)
	}
}

// Two transfers were reverted while ether was stolen. They stay undecided, and the gas that they burnt is not missing.
func TestThaw_BurntGasIsNotMissing(t *testing.T) {
	f := newFixture(t)
	f.sync(t)
	owner := f.merchant(t, "0xBurner")
	f.chain.reverts["0xBurner"] = true
	var refs []checkout.Ref
	for range 2 {
		ref := f.payout(t, owner, 20_000, money.ETH)
		f.send(t, ref)
		refs = append(refs, ref)
	}
	f.chain.mine(1)
	f.chain.take(money.ETH, 7_000_000_000_000_000)
	f.chain.mine(f.chain.finality + 1)
	require.Len(t, f.sync(t).Alarms, 2)

	o := treasurer.ThawOrder{AccountID: f.account(t).ID}
	require.NoError(t, f.Store.Treasury.Freeze(t.Context(), o.AccountID, "an operator looks"))
	var short storage.ShortageError
	require.ErrorAs(t, f.Thaw(t.Context(), o), &short)
	require.Equal(t, "0.007000000000000000 ETH", short.Missing)
	o.Missing = money.PurseOf(money.MustCrypto("0.007", money.ETH))
	require.NoError(t, f.Thaw(t.Context(), o))
	require.Equal(t, 2, f.sync(t).Reverted)
	for _, ref := range refs {
		require.Equal(t, checkout.PayoutFailed, f.read(t, ref).Status)
	}
	f.requireBooked(t)
}
