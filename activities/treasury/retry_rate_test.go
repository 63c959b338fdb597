package treasury_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	treasurer "example.com/checkout/activities/treasury"
	"example.com/checkout/workflows/books"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
)

// retry changes the merchant's payout address and retries the payout.
func (f fixture) retry(t *testing.T, ref checkout.Ref, address string) checkout.Payout {
	f.Exec(t, `UPDATE payout_address SET address = $1, next_address = NULL, next_network = NULL, next_by = NULL, next_at = NULL`,
		address)
	return f.retried(t, ref)
}

// fail makes a pending payout fail by its address.
func (f fixture) fail(t *testing.T, ref checkout.Ref) {
	require.Equal(t, checkout.PayoutInvalidAddress, f.transfer(t, ref).Failure)
	f.end(t, ref, 0, checkout.PayoutInvalidAddress)
}

// age moves the lock of the payout's rate into the past.
func (f fixture) age(t *testing.T, ref checkout.Ref, by time.Duration) {
	f.Exec(t, `UPDATE transaction SET rate_at = rate_at - $2::interval, rate_until = rate_until - $2::interval
		WHERE id = $1`, f.read(t, ref).TransactionID, by)
}

// failedETH is a payout of 99 EUR after the fee, in ETH, whose address cannot be paid.
func (f fixture) failedETH(t *testing.T) checkout.Ref {
	f.chain.invalid["0xBad"] = true
	ref := f.payout(t, f.merchant(t, "0xBad"), 10_000, money.ETH)
	f.fail(t, ref)
	return ref
}

// requireRate requires the rate of a signed payout, and that its amount and fee are the source amount at it.
func (f fixture) requireRate(t *testing.T, ref checkout.Ref, rate, gross string) {
	p := f.read(t, ref)
	require.Equal(t, []string{rate, "0.0003375"}, []string{p.ExchangeRate.String(), p.LockedRate.String()})
	require.Equal(t, gross, p.Amount.Add(p.Fee).String())
}

// ETH becomes dearer. A merchant who retries late, or a customer who withdraws a dispute, gains nothing by waiting.
func TestRetryRate_IsLockedForADayAndWhileThePayoutWaitsForUs(t *testing.T) {
	t.Parallel()
	const locked, lower = "0.0003375", "0.0003"
	for name, c := range map[string]struct {
		waits func(t *testing.T, f *fixture) checkout.Ref
		rate  string
		gross string
	}{
		"retried within the day": {func(t *testing.T, f *fixture) checkout.Ref {
			ref := f.failedETH(t)
			f.age(t, ref, day-time.Minute)
			require.True(t, f.retry(t, ref, "0xGood").RateHolds(time.Now()))
			return ref
		}, locked, "0.033412500000000000"},
		"retried later, while there was no rate": {func(t *testing.T, f *fixture) checkout.Ref {
			ref := f.failedETH(t)
			f.age(t, ref, day+time.Second)
			f.retry(t, ref, "0xGood")
			f.Rates = &fakeRates{none: true}
			require.Equal(t, checkout.HoldRate, f.transfer(t, ref).Held)
			return ref
		}, lower, "0.029700000000000000"},
		"delayed by us for 60 days": {func(t *testing.T, f *fixture) checkout.Ref {
			f.Delay = 60 * day
			ref := f.payout(t, f.owner, 10_000, money.ETH)
			f.held(t, ref, checkout.HoldDelay)
			f.age(t, ref, 60*day)
			f.Exec(t, `UPDATE payout SET created_at = created_at - interval '60 days'`)
			return ref
		}, locked, "0.033412500000000000"},
		"disputed for a day": {func(t *testing.T, f *fixture) checkout.Ref {
			ref := f.payout(t, f.owner, 10_000, money.ETH)
			f.risk(t, ref, books.RiskDispute, books.RiskOpen)
			f.held(t, ref, checkout.HoldRisk)
			f.age(t, ref, day+time.Second)
			f.risk(t, ref, books.RiskDispute, books.RiskWon)
			return ref
		}, lower, "0.029700000000000000"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			ref := c.waits(t, &f)
			f.Rates = &fakeRates{eth: lower}
			f.send(t, ref)
			f.requireRate(t, ref, c.rate, c.gross)
		})
	}
}

// The bounds of the rule: the rate of the signature counts, not that of the retry, and it never rises.
func TestRetryRate_OnlyFalls(t *testing.T) {
	f := newFixture(t)
	f.chain.reverts["0xReverts"], f.chain.reverts["0xReverts2"] = true, true
	ref := f.failedETH(t)
	f.age(t, ref, day+time.Second)
	f.Rates = &fakeRates{eth: "0.0004"}
	p := f.retry(t, ref, "0xReverts")
	require.False(t, p.RateHolds(time.Now()))
	require.Equal(t, "0.0003375", p.ExchangeRate.String(), "it is decided at the signature")
	f.Rates = &fakeRates{eth: "0.0003"} // the price moves between the retry and the signature
	f.send(t, ref)
	f.requireRate(t, ref, "0.0003", "0.029700000000000000")

	f.chain.mine(5)
	require.Equal(t, 1, f.sync(t).Reverted)
	require.Equal(t, "0.0003", f.read(t, ref).ExchangeRate.String())
	f.Rates = &fakeRates{eth: "0.00032"}
	f.retry(t, ref, "0xReverts2")
	f.send(t, ref)
	f.requireRate(t, ref, "0.0003", "0.029700000000000000")

	f.chain.mine(5)
	require.Equal(t, 1, f.sync(t).Reverted)
	f.Rates = &fakeRates{eth: "0.00029"}
	f.retry(t, ref, "0xGood")
	f.send(t, ref)
	f.requireRate(t, ref, "0.00029", "0.028710000000000000")
	f.settle(t)
	require.Equal(t, "0", f.requireBooked(t)["merchant:payable EUR"])
}

// The merchant's contract accepts the simulated transfer and refuses the real one, again and again.
func TestRetry_AfterARevertedTransferAsksForAnotherAddress(t *testing.T) {
	f := newFixture(t)
	f.chain.reverts["0xMerchant"], f.chain.reverts["0xSecond"] = true, true
	ref := f.usdc(t)
	refused := func() *checkout.AddressRevertedError {
		err := f.retryError(t, ref)
		require.ErrorIs(t, err, checkout.ErrConflict)
		var reverted *checkout.AddressRevertedError
		require.ErrorAs(t, err, &reverted)
		return reverted
	}
	revert := func() {
		f.send(t, ref)
		f.chain.mine(5)
		require.Equal(t, 1, f.sync(t).Reverted)
	}
	revert()
	require.Equal(t, &checkout.AddressRevertedError{Address: "0xMerchant"}, refused())
	f.Exec(t, `UPDATE payout_address SET address = '0xMERCHANT'`)
	require.Equal(t, "0xMERCHANT", refused().Address, "the same address in other letters")

	f.Exec(t, `UPDATE payout_address SET next_address = '0xSecond', next_network = network, next_by = 'ann@shop.example',
		next_at = now() + interval '1 hour'`)
	require.WithinDuration(t, time.Now().Add(time.Hour), *refused().ChangesAt, time.Minute)
	f.Exec(t, `UPDATE payout_address SET next_at = now()`)
	f.retried(t, ref)
	revert()
	require.Equal(t, "0xSecond", refused().Address)
	f.Exec(t, `UPDATE payout_address SET next_address = '0xMerchant', next_network = network, next_by = 'ann@shop.example', next_at = now()`)
	require.Equal(t, "0xMerchant", refused().Address, "two addresses in turn")
	f.retry(t, ref, "0xThird")
	f.send(t, ref)
	f.settle(t)
	f.requireBooked(t)
}

// After the restore of an old backup the rate of the signature is lost.
func TestRetryRate_ALostTransferIsRecoveredAtTheRateThatItPaid(t *testing.T) {
	f := newFixture(t)
	f.sync(t)
	ref := f.failedETH(t)
	f.age(t, ref, day+time.Second)
	f.Exec(t, `UPDATE payout_address SET address = '0xGood'`)
	var before checkout.Payout
	f.lose(t, func() {
		f.retried(t, ref)
		f.Rates = &fakeRates{eth: "0.0003"}
		f.send(t, ref)
		before = f.read(t, ref)
	})

	f.sync(t)
	f.retried(t, ref)
	require.Empty(t, f.recover(t, treasurer.RecoveryOrder{})[0].Fits)
	require.True(t, f.recover(t, treasurer.RecoveryOrder{Chosen: map[string]string{before.TxHash: ref.ID}})[0].Done)
	require.Equal(t, 1, f.sync(t).Confirmed)
	p := f.read(t, ref)
	require.Equal(t, []money.Crypto{before.Amount, before.Amount.Sub(before.Amount)}, []money.Crypto{p.Amount, p.Fee})
	require.Equal(t, p.Amount, p.Gross())
	require.Equal(t, "0", f.requireBooked(t)["merchant:payable EUR"])
}
