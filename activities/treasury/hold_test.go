package treasury_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	treasurer "example.com/checkout/activities/treasury"
	"example.com/checkout/storage"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/address"
	"example.com/checkout/workflows/books"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/treasury"
	"example.com/checkout/workflows/webhook"
)

// available notes that the acquirer makes the money of the payout's charge available.
func (f fixture) available(t *testing.T, ref checkout.Ref, at time.Time) {
	require.NoError(t, f.Store.Books.RecordChargeCost(t.Context(), ref.Mode, f.read(t, ref).TransactionID,
		books.ChargeCost{Currency: money.EUR, Gross: 10_000, Cost: 320, AvailableAt: at}))
}

// held requires that the payout is held, also when it has waited for long.
func (f fixture) held(t *testing.T, ref checkout.Ref, why checkout.PayoutHold) {
	for range 2 {
		require.Equal(t, treasury.TransferOutcome{Held: why, Generation: 1}, f.transfer(t, ref))
		f.Exec(t, `UPDATE payout SET held_at = held_at - interval '60 days' WHERE id = $1`, ref.ID)
	}
	require.Equal(t, why, f.read(t, ref).Hold)
	require.EqualValues(t, 0, f.query(t, `SELECT count(*) FROM transfer_payout WHERE payout_id = $1`, ref.ID))
}

// The limit is the merchant's, over all accounts, so the lock of an account is not enough.
func TestUnsettled_HoldsWhenManyComeAtOnce(t *testing.T) {
	f := newFixture(t)
	f.Limits.MerchantUnsettled = 3*10_692 + 10_691
	second := f.process(t)
	chain := newFakeChain(2, map[money.PayoutCurrency]string{money.ETH: "1000", money.USDC: "1000000"})
	chain.account.Address = "0xSecondTreasury"
	slowly := func(*treasury.TransferVersion) { time.Sleep(50 * time.Millisecond) } // both sign at the same moment
	chain.forge, f.chain.forge = slowly, slowly
	second.Limits, second.Chains = f.Limits, map[string]treasury.Chain{"ethereum": chain}
	f.open(t, f.Treasury)
	f.open(t, second)
	f.Exec(t, `UPDATE treasury_account SET frozen_at = NULL, frozen_why = '', unexplained_block = NULL`) // both are in use
	var group errgroup.Group
	for i := range 12 {
		ref, from := f.usdc(t), []*treasurer.Treasury{f.Treasury, second}[i%2]
		group.Go(func() error {
			_, err := transfer(t.Context(), from, ref)
			return err
		})
	}
	require.NoError(t, group.Wait())
	require.EqualValues(t, 3, f.query(t, `SELECT count(*) FROM transfer`))
	require.EqualValues(t, 9, f.query(t, `SELECT count(*) FROM payout WHERE hold = 'unsettled'`))
}

// Available money makes room, a charge with available money needs none, and each payout counts once, sent or not.
func TestUnsettled_GoesOnWhenTheAcquirerHasSettled(t *testing.T) {
	f := newFixture(t)
	f.Limits.MerchantUnsettled = 2 * 10_692
	first, second, third, fourth, fifth := f.usdc(t), f.usdc(t), f.usdc(t), f.usdc(t), f.usdc(t)
	f.send(t, first)
	_, err := f.Transfer(t.Context(), second) // signed, and not finished
	require.NoError(t, err)
	f.held(t, third, checkout.HoldUnsettled)
	require.NotNil(t, f.read(t, third).NextActionAt)

	other := f.merchant(t, "0xOther")
	f.send(t, f.payout(t, other, 10_000, money.USDC)) // a limit for each merchant

	f.available(t, first, time.Now().Add(time.Hour))
	f.held(t, third, checkout.HoldUnsettled)
	f.available(t, first, time.Now()) // the first answer stays
	f.held(t, third, checkout.HoldUnsettled)
	f.Exec(t, `UPDATE transaction SET available_at = now() - interval '1 second' WHERE available_at IS NOT NULL`)
	f.send(t, third)

	f.held(t, fourth, checkout.HoldUnsettled)
	f.available(t, fourth, time.Now().Add(-time.Second))
	f.send(t, fourth)
	f.held(t, fifth, checkout.HoldUnsettled)
	f.settle(t)
	f.held(t, fifth, checkout.HoldUnsettled) // what is final on the chain is still not settled
}

// No real money is behind its charges.
func TestUnsettled_TheSandboxHoldsNoMoneyBack(t *testing.T) {
	f := newFixture(t)
	f.Limits.MerchantUnsettled = 0
	ref := f.usdc(t)
	f.held(t, ref, checkout.HoldUnsettled)
	f.Exec(t, `UPDATE transaction SET acquirer = 'sandbox'`)
	f.send(t, ref)
}

// The next try is at the end of the delay, and not before.
func TestDelay_HoldsUntilItIsOver(t *testing.T) {
	f := newFixture(t)
	f.Delay = 72 * time.Hour
	ref := f.usdc(t)
	f.held(t, ref, checkout.HoldDelay)
	p := f.read(t, ref)
	require.Equal(t, p.CreatedAt.Add(72*time.Hour), *p.NextActionAt)
	f.Exec(t, `UPDATE payout SET created_at = created_at - interval '71 hours 59 minutes'`)
	f.held(t, ref, checkout.HoldDelay)
	f.Exec(t, `UPDATE payout SET created_at = created_at - interval '1 minute'`)
	f.send(t, ref)
}

// The merchant sees an invalid address, and a finding gives the reason.
func TestSanctions_NothingIsSigned(t *testing.T) {
	t.Parallel()
	for name, list := range map[string]func(f *fixture){
		"the file":   func(f *fixture) { f.Sanctioned = address.NewList("0xMERCHANT") },
		"the oracle": func(f *fixture) { f.chain.listed["0xMerchant"] = true },
	} {
		f := newSerialFixture(t)
		list(&f)
		ref := f.usdc(t)
		want := treasury.TransferOutcome{Failure: checkout.PayoutInvalidAddress, Generation: 1}
		for range 2 {
			got := f.transfer(t, ref)
			require.Equal(t, want, got, name)
		}
		require.EqualValues(t, 0, f.query(t, `SELECT count(*) FROM transfer`))
		found := f.findings(t)
		require.Len(t, found, 1)
		require.Equal(t, []any{books.FindingPayoutSanctioned, ref.ID}, []any{found[0].Kind, found[0].Subject})
		require.Contains(t, found[0].Detail, "0xMerchant")

		f.end(t, ref, 1, want.Failure)
		f.Exec(t, `UPDATE payout_address SET address = '0xClean'`)
		f.retried(t, ref)
		f.send(t, ref)
		require.Empty(t, f.findings(t), "the payout has another address")
	}
}

// An unknown answer never passes.
func TestSanctions_AnOracleThatDoesNotAnswerHolds(t *testing.T) {
	f := newFixture(t)
	ref := f.usdc(t)
	f.chain.listErr = fmt.Errorf("oracle: %w", treasury.ErrNotTransferable)
	require.Equal(t, checkout.HoldChain, f.transfer(t, ref).Held)
	f.chain.listErr = errNode
	_, err := f.Transfer(t.Context(), ref)
	require.ErrorIs(t, err, errNode, "the run tries again, and holds it as away after minutes")
	require.NotErrorIs(t, err, treasurer.ErrNotTaken)
	require.EqualValues(t, 0, f.query(t, `SELECT count(*) FROM transfer`))
	f.chain.listErr = nil
	f.send(t, ref)
}

// report records a risk of the payout's charge, whose reference is the transaction's id.
func (f fixture) report(t *testing.T, ref checkout.Ref) storage.ChargeToCheck {
	look := storage.ChargeToCheck{
		Reference: f.read(t, ref).TransactionID, Reports: []string{checkout.NewID(checkout.PrefixEvent)},
	}
	require.NoError(t, must.Err(f.Store.Books.StoreAcquirerEvent(t.Context(), books.AcquirerEvent{
		ID: look.Reports[0], Mode: checkout.ModeLive, Reference: look.Reference, Risk: true, CreatedAt: time.Now(),
	})))
	return look
}

// risk reports a risk of the whole charge and records what the card network says about it. It returns the new findings.
func (f fixture) risk(t *testing.T, ref checkout.Ref, kind books.RiskKind, status books.RiskStatus) []books.Finding {
	return f.riskOf(t, ref, kind, status, 10_000)
}

func (f fixture) riskOf(
	t *testing.T, ref checkout.Ref, kind books.RiskKind, status books.RiskStatus, amount money.Amount,
) []books.Finding {
	return must.Get(f.Store.Books.RecordRisks(t.Context(), checkout.ModeLive, f.report(t, ref), []books.ChargeRisk{
		{ID: string(kind) + " of " + ref.ID, Kind: kind, Status: status, Amount: amount, Currency: money.EUR},
	}))(t)
}

func (f fixture) due(t *testing.T, ref checkout.Ref) any {
	return f.query(t, `SELECT next_action_at <= clock_timestamp() FROM payout WHERE id = $1`, ref.ID)
}

func TestRisk_HoldsAPayoutUntilItIsGone(t *testing.T) {
	t.Parallel()
	for _, kind := range []books.RiskKind{books.RiskDispute, books.RiskRefund} {
		f := newSerialFixture(t)
		ref, other := f.usdc(t), f.usdc(t)
		f.report(t, ref)
		f.held(t, ref, checkout.HoldRisk) // nobody has asked the card network yet
		for _, status := range []books.RiskStatus{books.RiskInquiry, books.RiskOpen} {
			found := f.risk(t, ref, kind, status)
			f.Exec(t, `UPDATE acquirer_event SET unseen = false`)
			if status == books.RiskInquiry {
				require.Contains(t, found[0].Detail, "waits")
			}
			f.held(t, ref, checkout.HoldRisk)
			require.Equal(t, false, f.due(t, ref))
		}
		require.Empty(t, f.risk(t, ref, kind, books.RiskWon))
		require.Equal(t, true, f.due(t, ref), kind)
		f.send(t, ref)
		f.send(t, other)
	}
}

// The merchant bears it: the payout fails. The bank decides anew, and the merchant may retry the payout.
func TestRisk_WhatIsLostFailsThePayout(t *testing.T) {
	t.Parallel()
	for kind, why := range map[books.RiskKind]checkout.PayoutFailure{
		books.RiskDispute: checkout.PayoutDisputed, books.RiskRefund: checkout.PayoutRefunded,
	} {
		f := newSerialFixture(t)
		ref := f.usdc(t)
		f.risk(t, ref, kind, books.RiskOpen)
		f.held(t, ref, checkout.HoldRisk)
		f.risk(t, ref, kind, books.RiskLost)
		require.Equal(t, treasury.TransferOutcome{Failure: why, Generation: 1}, f.transfer(t, ref))
		require.Equal(t, checkout.PayoutFailed, f.read(t, ref).Status)
		require.Equal(t, []webhook.EventType{webhook.PayoutFailed}, f.eventTypes(t, ref), kind)
		require.ErrorIs(t, f.retryError(t, ref), checkout.ErrPaymentRefunded)
		require.Equal(t, "100", f.ledger(t)["merchant:payable EUR"], "the fee stays with us, so the merchant owes it")

		require.Empty(t, f.risk(t, ref, kind, books.RiskWon))
		f.retried(t, ref)
		f.send(t, ref)
		f.settle(t)
		require.Equal(t, "0", f.requireBooked(t)["merchant:payable EUR"])
	}
}

func TestRisk_APartThatIsLostIsDeducted(t *testing.T) {
	f := newFixture(t)
	ref := f.usdc(t)
	f.riskOf(t, ref, books.RiskDispute, books.RiskOpen, 4_000)
	f.held(t, ref, checkout.HoldRisk)
	f.riskOf(t, ref, books.RiskDispute, books.RiskLost, 4_000)
	f.Exec(t, `UPDATE acquirer_event SET unseen = false`)
	f.send(t, ref)
	p := f.read(t, ref)
	require.Equal(t, "63.720000", p.Amount.Add(p.Fee).String(), "59.00 EUR at 1.08")
	require.Len(t, p.Deductions, 1)
	require.Equal(t, []any{checkout.DeductionDispute, money.Amount(4_000)}, []any{p.Deductions[0].Type, p.Deductions[0].Amount})
	require.Equal(t, []webhook.EventType{webhook.PayoutReduced, webhook.PayoutSent}, f.eventTypes(t, ref))
	f.settle(t)
	require.Equal(t, "0", f.requireBooked(t)["merchant:payable EUR"])
}

// What version 1.0.0 noted is a loss of ours, and holds the payout also when it is lost.
func TestRisk_OfVersion100StaysOurLoss(t *testing.T) {
	f := newFixture(t)
	ref := f.usdc(t)
	f.risk(t, ref, books.RiskDispute, books.RiskInquiry)
	f.Exec(t, `UPDATE charge_risk SET debited = false, dispute_id = NULL`) // as the migration leaves its rows
	for _, c := range []struct {
		status books.RiskStatus
		books  map[string]string
	}{
		{books.RiskOpen, map[string]string{"acquirer:receivable EUR": "0", "acquirer:disputed EUR": "10000"}},
		{books.RiskLost, map[string]string{"acquirer:receivable EUR": "0", "acquirer:disputed EUR": "0", "expense:loss EUR": "10000"}},
	} {
		f.risk(t, ref, books.RiskDispute, c.status)
		c.books["merchant:payable EUR"], c.books["revenue:fee EUR"] = "-9900", "-100"
		require.Equal(t, c.books, f.ledger(t), c.status)
		f.held(t, ref, checkout.HoldRisk)
		require.Zero(t, f.read(t, ref).Deducted)
	}
	require.NoError(t, f.Store.Payouts.ReleasePayout(t.Context(), ref))
	f.send(t, ref)
	require.Equal(t, "0", f.ledger(t)["merchant:payable EUR"], "it is paid whole, and owes nothing")
}

// The release accepts the known risks, and later ones hold the payout again.
func TestRisk_AnOperatorReleases(t *testing.T) {
	f := newFixture(t)
	ref := f.usdc(t)
	require.ErrorIs(t, f.Store.Payouts.ReleasePayout(t.Context(), ref), checkout.ErrConflict, "nothing holds it")
	f.risk(t, ref, books.RiskFraudWarning, books.RiskInquiry)
	f.held(t, ref, checkout.HoldRisk)

	other := f.merchant(t, "0xOther")
	require.ErrorIs(t, f.Store.Payouts.ReleasePayout(t.Context(), other.Ref(ref.ID)), checkout.ErrNotFound)
	require.NoError(t, f.Store.Payouts.ReleasePayout(t.Context(), ref, operators(ref, "payout.released")))
	require.EqualValues(t, 1, f.query(t, `SELECT count(*) FROM audit_entry WHERE subject = $1`, ref.ID))
	require.Equal(t, true, f.due(t, ref))

	f.risk(t, ref, books.RiskDispute, books.RiskOpen)
	f.held(t, ref, checkout.HoldRisk)
	require.NoError(t, f.Store.Payouts.ReleasePayout(t.Context(), ref))
	due := f.query(t, `SELECT next_action_at FROM payout WHERE id = $1`, ref.ID)
	require.NoError(t, f.Store.Payouts.ReleasePayout(t.Context(), ref))
	require.Equal(t, due, f.query(t, `SELECT next_action_at FROM payout WHERE id = $1`, ref.ID), "a repeat postpones nothing")
	f.send(t, ref)
	p := f.read(t, ref)
	require.Equal(t, []any{"106.920000", money.Amount(0)}, []any{p.Amount.Add(p.Fee).String(), p.Deducted}, "it is paid whole")
	require.Equal(t, "10000", f.ledger(t)["merchant:payable EUR"], "and the merchant owes what the dispute may take")
	found := f.risk(t, ref, books.RiskRefund, books.RiskOpen)
	require.Contains(t, found[0].Detail, "is signed and cannot be stopped")
	require.ErrorIs(t, f.Store.Payouts.ReleasePayout(t.Context(), ref), checkout.ErrConflict, "it is sent")
}

// The payout is held, or a finding reports that it is signed. Never neither.
func TestRisk_RacesTheSignature(t *testing.T) {
	f := newFixture(t)
	held, signed := 0, 0
	for range 20 {
		ref := f.payout(t, f.merchant(t, "0xMerchant"), 10_000, money.USDC) // what an earlier one lost is not recovered here
		look := storage.ChargeToCheck{Reference: f.read(t, ref).TransactionID}
		var (
			g     errgroup.Group
			sent  treasury.TransferOutcome
			found []books.Finding
		)
		g.Go(func() (err error) {
			sent, err = f.Transfer(t.Context(), ref)
			return err
		})
		g.Go(func() (err error) {
			found, err = f.Store.Books.RecordRisks(t.Context(), checkout.ModeLive, look, []books.ChargeRisk{
				{ID: "du_" + ref.ID, Kind: books.RiskDispute, Status: books.RiskOpen, Amount: 10_000, Currency: money.EUR},
			})
			return err
		})
		require.NoError(t, g.Wait())
		require.Len(t, found, 1)
		if sent.Held == "" {
			signed++
			require.Contains(t, found[0].Detail, "is signed")
			continue
		}
		held++
		require.Equal(t, checkout.HoldRisk, sent.Held)
		require.Contains(t, found[0].Detail, "waits")
	}
	t.Logf("%d were held and %d were signed", held, signed)
}

// A transfer that is signed may be on its way, so its payout waits as a held one.
func TestHoldAwayPayout_AlsoWaitsWithASignedTransfer(t *testing.T) {
	f := newFixture(t)
	ref := f.usdc(t)
	f.chain.refuse = errNode
	require.Error(t, must.Err(f.Transfer(t.Context(), ref)))
	got := must.Get(f.Store.Payouts.HoldAwayPayout(t.Context(), ref))(t)
	require.Equal(t, treasury.TransferOutcome{Held: checkout.HoldAway, Generation: 1}, got)
	late := must.Get(f.Store.Installation.Overdue(t.Context(), 0, "", 10))(t)
	require.Empty(t, late, "Reconcile leaves it alone until its next action is due")

	f.chain.refuse = nil
	f.settle(t)
	f.send(t, ref)
	p := f.read(t, ref)
	require.Equal(t, []any{checkout.PayoutHold(""), (*time.Time)(nil)}, []any{p.Hold, p.NextActionAt})
	f.requirePaidOnce(t, ref)
	got = must.Get(f.Store.Payouts.HoldAwayPayout(t.Context(), ref))(t)
	require.Equal(t, treasury.TransferOutcome{Generation: 1}, got, "it was sent")
	require.ErrorIs(t, must.Err(f.Store.Payouts.HoldAwayPayout(t.Context(), f.owner.Ref("po_none"))), checkout.ErrNotFound)

	refused := f.usdc(t)
	require.NoError(t, must.Err(f.Store.Payouts.RefusePayout(t.Context(), f.read(t, refused), checkout.PayoutInvalidAddress)))
	got = must.Get(f.Store.Payouts.HoldAwayPayout(t.Context(), refused))(t)
	require.Equal(t, treasury.TransferOutcome{Failure: checkout.PayoutInvalidAddress, Generation: 1}, got, "a retry is not decided by it")
}

// The time in which no node answered does not use up the patience with another hold.
func TestHoldAwayPayout_UsesUpNoPatience(t *testing.T) {
	f := newFixture(t)
	ref := f.usdc(t)
	require.NoError(t, must.Err(f.Store.Payouts.HoldAwayPayout(t.Context(), ref)))
	f.Exec(t, `UPDATE payout SET held_at = held_at - interval '3 days'`)
	f.chain.planErr = treasury.ErrFeeTooHigh
	for range 2 {
		require.Equal(t, treasury.TransferOutcome{Held: checkout.HoldFee, Generation: 1}, f.transfer(t, ref))
	}
}

// A suspended payout is never given up, also while the fee would hold it and use up its patience.
func TestSuspended_HoldsUntilThePayoutsAreResumed(t *testing.T) {
	f := newFixture(t)
	ref := f.usdc(t)
	payouts := merchant.Suspended{merchant.CapabilityPayouts}
	must.Get(f.Store.Merchants.Suspend(t.Context(), f.owner.MerchantID, payouts, "stolen cards"))(t)
	f.held(t, ref, checkout.HoldSuspended)
	f.chain.planErr = treasury.ErrFeeTooHigh
	for range 2 {
		f.Exec(t, `UPDATE payout SET held_at = held_at - interval '3 days'`)
		require.Equal(t, treasury.TransferOutcome{Held: checkout.HoldSuspended, Generation: 1}, f.transfer(t, ref))
	}
	require.Equal(t, false, f.due(t, ref))
	f.chain.planErr = nil
	require.Empty(t, must.Get(f.Store.Merchants.Resume(t.Context(), f.owner.MerchantID, payouts))(t).Suspended)
	require.Equal(t, true, f.due(t, ref))
	f.send(t, ref)
}

// A failed payout is not on hold.
func TestHoldAwayPayout_EndsWithTheTransfer(t *testing.T) {
	f := newFixture(t)
	f.chain.reverts["0xMerchant"] = true
	ref := f.usdc(t)
	f.chain.refuse = errNode
	require.Error(t, must.Err(f.Transfer(t.Context(), ref)))
	require.NoError(t, must.Err(f.Store.Payouts.HoldAwayPayout(t.Context(), ref)))
	f.chain.refuse = nil
	f.settle(t)
	p := f.read(t, ref)
	require.Equal(t, []any{checkout.PayoutFailed, checkout.PayoutHold(""), (*time.Time)(nil)}, []any{p.Status, p.Hold, p.NextActionAt})
}
