package storage_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/storage"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/treasury"
)

// livePaid creates a paid live session of a merchant. It returns the session and its payout.
func (f fixture) livePaid(t *testing.T, m merchant.Merchant) (checkout.Ref, checkout.Ref) {
	n := f.liveSession()
	n.Owner = m.Owner(checkout.ModeLive)
	s := f.create(t, n)
	_, settled := f.pay(t, s, checkout.ChargeResult{Outcome: checkout.OutcomeSucceeded})
	return s.Ref, s.Owner.Ref(settled.PayoutID)
}

// paidOnChain signs a transfer of a live payout, and confirms it 65 blocks after its block.
func (f fixture) paidOnChain(t *testing.T, payout checkout.Ref) {
	standing := treasury.AccountSnapshot{Height: 100, Balances: money.PurseOf(money.MustCrypto("5", money.ETH), money.MustCrypto("1000", money.USDC), money.MustCrypto("0", money.USDT))}
	account, err := f.Treasury.OpenTreasury(t.Context(), checkout.ModeLive,
		treasury.Account{Network: "ethereum", ChainID: "eip155:1", Address: "0xT"}, standing)
	require.NoError(t, err)
	p := must.Get(f.Payouts.Payout(t.Context(), payout))(t)
	pays := treasury.TransferOutput{PayoutID: p.ID, Destination: p.Destination, Amount: money.MustCrypto("10", money.USDC), Fee: money.MustCrypto("0.5", money.USDC)}
	plan := treasury.TransferPlan{Outputs: []treasury.TransferOutput{pays}, Fee: pays.Fee, MaxCost: money.MustCrypto("0.001", money.ETH)}
	signed, err := f.Treasury.SignTransfer(t.Context(), storage.SigningOrder{
		Payouts: []storage.PricedPayout{{Payout: p, Value: 1_000}}, AccountID: account.ID, Plan: plan, Chain: standing,
		Limits: treasury.PayoutLimits{Payout: 1_000_000, Day: 1_000_000, MerchantDay: 1_000_000, MerchantUnsettled: 1_000_000},
		Sign: func(_ context.Context, plan treasury.TransferPlan) (treasury.TransferVersion, error) {
			return treasury.TransferVersion{TransferPlan: plan, TxHash: "0x1", Raw: []byte("bytes")}, nil
		},
	})
	require.NoError(t, err)
	require.Equal(t, treasury.SigningGo, signed.Payouts[0].Step)
	live := must.Get(f.Treasury.LiveTransfers(t.Context(), account.ID, 1))(t)
	_, _, err = f.Treasury.EndTransfer(t.Context(), live[0],
		treasury.TransferSnapshot{State: treasury.TransferStateConfirmed, TxHash: "0x1", BlockHash: "0xb", Height: 105, Cost: money.MustCrypto("0.0005", money.ETH)},
		treasury.AccountSnapshot{Height: 170})
	require.NoError(t, err)
}

func TestSessionMoney_IsOnlyForItsOwner(t *testing.T) {
	f := newFixture(t)
	session, payout := f.livePaid(t, f.merchant)
	f.paidOnChain(t, payout)
	kinds := func() (all []string) {
		got := must.Get(f.Sessions.SessionMoney(t.Context(), session))(t)
		for _, e := range got.Ledger {
			all = append(all, e.Kind)
			require.NotEmpty(t, e.Postings)
		}
		return all
	}
	require.Equal(t, []string{"charge", "transfer_signed", "transfer_confirmed"}, kinds())
	got := must.Get(f.Sessions.SessionMoney(t.Context(), session))(t)
	require.Len(t, got.Transfers, 1)
	require.EqualValues(t, 65, *got.Transfers[0].Depth)
	require.Equal(t, "0x1", got.Transfers[0].Versions[0].TxHash)
	require.Equal(t, 1, got.Transfers[0].Versions[0].Number)

	other := f.other(t, checkout.ModeLive)
	for _, foreign := range []checkout.Ref{other.Owner(checkout.ModeLive).Ref(session.ID), f.merchant.Owner(checkout.ModeTest).Ref(session.ID)} {
		got := must.Get(f.Sessions.SessionMoney(t.Context(), foreign))(t)
		require.Empty(t, got.Charges)
		require.Empty(t, got.Transfers)
		require.Empty(t, got.Ledger)
	}

	// The transfer pays another merchant too: what is booked for all of it is for neither.
	_, others := f.livePaid(t, other)
	f.Exec(t, `INSERT INTO transfer_payout (transfer_id, payout_id, merchant_id, mode, currency, destination, amount, fee, value, standing, created_at)
		SELECT transfer_id, $1, $2, mode, currency, destination, amount, fee, value, true, created_at FROM transfer_payout`, others.ID, other.ID)
	require.Equal(t, []string{"charge", "transfer_signed"}, kinds())
}
