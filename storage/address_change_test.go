package storage_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/storage"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/webhook"
)

// changesAddress asks for another USDC address in test mode, "" for none, after a delay.
func (f fixture) changesAddress(t *testing.T, address string, delay time.Duration) storage.MerchantChanged {
	got, err := f.Merchants.ChangeMerchant(t.Context(), storage.MerchantChange{
		MerchantID: f.merchant.ID, Mode: checkout.ModeTest, Delay: delay, By: f.note(),
		Addresses: []merchant.PayoutAddress{{Currency: money.USDC, Network: "ethereum", Address: address}},
	})
	require.NoError(t, err)
	return got
}

func (f fixture) payoutTo(t *testing.T) string {
	return must.Get(f.Payouts.Payout(t.Context(), f.payout(t)))(t).Destination
}

func (f fixture) comes(t *testing.T) {
	f.Exec(t, `UPDATE payout_address SET next_at = clock_timestamp() WHERE next_at IS NOT NULL`)
}

func (f fixture) stops(t *testing.T, address string) error {
	return f.Merchants.StopAddressChange(t.Context(), f.merchant.Owner(checkout.ModeTest),
		merchant.PayoutAddress{Currency: money.USDC, Address: address}, f.note())
}

func TestAddressChange_HoldsFromItsMomentOn(t *testing.T) {
	f := newFixture(t)
	f.endpoint(t, "https://shop.example/a", webhook.MerchantUpdated)
	f.owner(t, "ann@shop.example")
	f.owner(t, "bob@shop.example")
	f.Exec(t, `DELETE FROM mail`)
	failed := f.failedPayout(t)
	got := f.changesAddress(t, "0xdef", 24*time.Hour)
	require.Empty(t, got.Events)
	require.Len(t, got.Announced, 1)
	require.WithinDuration(t, time.Now().Add(24*time.Hour), got.Announced[0].At, time.Minute)
	announced := must.Get(f.Merchants.AddressChanges(t.Context(), f.merchant.Owner(checkout.ModeTest)))(t)
	require.Equal(t, "0xdef", announced[0].Address)
	require.Equal(t, "a@shop.example", announced[0].By)
	require.EqualValues(t, 2, f.query(t, `SELECT count(*) FROM mail WHERE kind = 'address_asked' AND detail LIKE '%0xabc → 0xdef%'`), "all owners")
	require.EqualValues(t, 1, f.query(t, `SELECT count(*) FROM audit_entry WHERE action = 'payout_address.change_announced' AND detail LIKE '%0xabc → 0xdef%'`))
	require.Equal(t, "0xabc", f.payoutTo(t), "before the moment")
	require.Zero(t, must.Get(f.Merchants.ApplyDueAddresses(t.Context(), 10))(t))

	f.comes(t)
	require.Equal(t, "0xdef", f.payoutTo(t), "after it, though nobody has moved the address yet")
	require.Equal(t, "0xdef", must.Get(f.Payouts.RetryPayout(t.Context(), failed))(t).Destination, "a retry too")
	require.ErrorIs(t, f.stops(t, "0xdef"), checkout.ErrNotFound, "it is too late to stop it")
	require.EqualValues(t, 0, f.query(t, `SELECT count(*) FROM event WHERE type = 'merchant.updated'`))
	for range 2 {
		must.Get(f.Merchants.ApplyDueAddresses(t.Context(), 10))(t)
	}
	require.EqualValues(t, 1, f.query(t, `SELECT count(*) FROM event WHERE type = 'merchant.updated'
		AND convert_from(body, 'UTF8') LIKE '%"address":"0xdef"%"previous_attributes":{"payout_addresses":[{%0xabc%'`), "it is told once")
	require.EqualValues(t, 1, f.query(t, `SELECT count(*) FROM webhook_delivery d JOIN event e ON e.id = d.event_id WHERE e.type = 'merchant.updated'`))
	require.EqualValues(t, 1, f.query(t, `SELECT count(*) FROM audit_entry WHERE action = 'payout_address.changed' AND detail = 'USDC: 0xabc → 0xdef'`))
	require.EqualValues(t, 2, f.query(t, `SELECT count(*) FROM mail WHERE kind = 'address_changed'`))
	require.Equal(t, "0xdef", f.payoutTo(t))
}

func TestAddressChange_ARemovalWaitsAndAFirstAddressDoesNot(t *testing.T) {
	f := newFixture(t)
	require.Len(t, f.changesAddress(t, "", time.Hour).Announced, 1)
	require.Equal(t, "0xabc", f.payoutTo(t), "or a thief would remove the address, and add the own one as a first")
	got := f.changesAddress(t, "0xdef", time.Hour)
	require.Len(t, got.Announced, 1, "it replaces the removal")
	require.EqualValues(t, 1, f.query(t, `SELECT count(*) FROM audit_entry
		WHERE action = 'payout_address.change_announced' AND detail LIKE '%0xabc → 0xdef%in place of the announced change to none'`), "and says so")
	require.Equal(t, "0xabc", f.payoutTo(t))
	f.changesAddress(t, "", time.Hour)
	f.comes(t)
	require.Empty(t, f.payoutTo(t))
	owner := f.merchant.Owner(checkout.ModeTest)
	require.Empty(t, must.Get(f.Merchants.PayoutAddresses(t.Context(), owner))(t))
	require.False(t, must.Get(f.Merchants.HasPayoutAddress(t.Context(), owner, money.USDC))(t))
	got = f.changesAddress(t, "0xfff", time.Hour)
	require.Empty(t, got.Announced)
	require.Len(t, got.Events, 2, "what had come is told first")
	require.Equal(t, "0xfff", f.payoutTo(t))
}

// TestAddressChange_TheSameAddressStopsNothing: a form that names the present address as a new one would take an
// announced change back without a mail or an entry in the audit log.
func TestAddressChange_TheSameAddressStopsNothing(t *testing.T) {
	f := newFixture(t)
	f.changesAddress(t, "0xdef", 24*time.Hour)

	got := f.changesAddress(t, "0xabc", 24*time.Hour)

	require.Empty(t, got.Events)
	announced := must.Get(f.Merchants.AddressChanges(t.Context(), f.merchant.Owner(checkout.ModeTest)))(t)
	require.Len(t, announced, 1)
	require.Equal(t, "0xdef", announced[0].Address)
}

func TestAddressChange_IsStoppedByItsAddress(t *testing.T) {
	f := newFixture(t)
	f.owner(t, "ann@shop.example")
	f.changesAddress(t, "0xdef", time.Hour)
	require.ErrorIs(t, f.stops(t, "0xother"), checkout.ErrNotFound)
	require.ErrorIs(t, f.Merchants.StopAddressChange(t.Context(), checkout.Owner{MerchantID: checkout.NewID("mer"), Mode: checkout.ModeTest},
		merchant.PayoutAddress{Currency: money.USDC, Address: "0xdef"}, f.note()), checkout.ErrNotFound)
	require.ErrorIs(t, f.Merchants.StopAddressChange(t.Context(), f.merchant.Owner(checkout.ModeLive),
		merchant.PayoutAddress{Currency: money.USDC, Address: "0xdef"}, f.note()), checkout.ErrNotFound)
	require.NoError(t, f.stops(t, "0xdef"))
	require.ErrorIs(t, f.stops(t, "0xdef"), checkout.ErrNotFound)
	require.EqualValues(t, 1, f.query(t, `SELECT count(*) FROM mail WHERE kind = 'address_stopped' AND detail LIKE 'USDC: 0xabc stays, not 0xdef%'`))
	f.comes(t)
	require.Equal(t, "0xabc", f.payoutTo(t))
}

// stopAnnounced ends every announced change, as StopAddressChange does.
const stopAnnounced = `UPDATE payout_address SET next_network = NULL, next_address = NULL, next_at = NULL, next_by = NULL`

// TestAddressChange_StoppedInTheLastMomentGetsNoPayout stops a change before its moment and commits after
// it. A payout that is decided in between must wait, and then see that the change is gone.
func TestAddressChange_StoppedInTheLastMomentGetsNoPayout(t *testing.T) {
	t.Parallel()
	for name, arrange := range map[string]func(t *testing.T, f fixture) func() (checkout.Payout, error){
		"a payment": func(t *testing.T, f fixture) func() (checkout.Payout, error) {
			s, id := f.charged(t, succeeded)
			return func() (checkout.Payout, error) {
				got, err := f.Sessions.FinishPayment(context.Background(), s.Ref, id)
				if err != nil {
					return checkout.Payout{}, err
				}
				return f.Payouts.Payout(context.Background(), s.Owner.Ref(got.PayoutID))
			}
		},
		"a retry": func(t *testing.T, f fixture) func() (checkout.Payout, error) {
			failed := f.failedPayout(t)
			return func() (checkout.Payout, error) { return f.Payouts.RetryPayout(context.Background(), failed) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			decide := arrange(t, f)
			f.changesAddress(t, "0xdef", time.Hour)
			f.comes(t)
			require.Equal(t, "0xabc", afterLock(t, f, stopAnnounced, "", decide).Destination)
		})
	}
}

// TestAddressChange_ReplacesNoneThatIsBeingStopped: the e-mail would name a change that an owner has stopped.
func TestAddressChange_ReplacesNoneThatIsBeingStopped(t *testing.T) {
	f := newFixture(t)
	f.changesAddress(t, "0xdef", time.Hour)
	got := afterLock(t, f, stopAnnounced, "", func() (storage.MerchantChanged, error) {
		return f.changesAddress(t, "0xfff", time.Hour), nil
	})
	require.Len(t, got.Announced, 1)
	require.EqualValues(t, 0, f.query(t, `SELECT count(*) FROM audit_entry WHERE detail LIKE '%in place of%'`))
}

// TestAddressChange_WithoutADelayEndsWhatIsAnnounced is for the setting 0s: an address that holds at once is not
// replaced by one that was announced under another setting.
func TestAddressChange_WithoutADelayEndsWhatIsAnnounced(t *testing.T) {
	f := newFixture(t)
	f.changesAddress(t, "0xdef", time.Hour)
	f.changesAddress(t, "0xfff", 0)
	f.comes(t)
	require.Equal(t, "0xfff", f.payoutTo(t))
}
