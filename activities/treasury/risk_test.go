package treasury_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"example.com/checkout/storage"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/books"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/treasury"
)

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

// risk reports a risk and records what the card network says about it. It returns the new findings.
func (f fixture) risk(t *testing.T, ref checkout.Ref, kind books.RiskKind, status books.RiskStatus) []books.Finding {
	return must.Get(f.Store.Books.RecordRisks(t.Context(), checkout.ModeLive, f.report(t, ref), []books.ChargeRisk{
		{ID: string(kind) + " of " + ref.ID, Kind: kind, Status: status, Amount: 10_000, Currency: money.EUR},
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
		for _, status := range []books.RiskStatus{books.RiskInquiry, books.RiskOpen, books.RiskLost} {
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
	f.send(t, ref)
	require.ErrorIs(t, f.Store.Payouts.ReleasePayout(t.Context(), ref), checkout.ErrConflict, "it is sent")
}

// The payout is held, or a finding reports that it is signed. Never neither.
func TestRisk_RacesTheSignature(t *testing.T) {
	f := newFixture(t)
	held, signed := 0, 0
	for range 20 {
		ref := f.usdc(t)
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
