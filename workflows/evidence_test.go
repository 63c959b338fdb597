package workflows_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/activities/sandbox"
	"example.com/checkout/storage"
	"example.com/checkout/storage/pg"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/contract"
)

// contest opens a dispute of a payment at the sandbox, and submits a text as evidence.
func (w *world) contest(text string) checkout.Dispute {
	ctx := w.t.Context()
	s, _ := w.session()
	w.pay(s)
	paid := w.read(s.ID).Transactions[0].ID
	require.NoError(w.t, w.Sandbox.OpenSandboxDispute(ctx, storage.SandboxDispute{
		ID: "du_1", TransactionID: paid, Reason: "fraudulent", Status: "needs_response",
	}, "lost", time.Hour))
	w.readRisks(paid)
	d := must.Get(w.Disputes.Disputes(ctx, s.Owner, storage.DisputeFilter{}, pg.Page{Limit: 1}))(w.t)[0]
	return must.Get(w.Disputes.SubmitEvidence(ctx, storage.EvidenceOrder{
		RequestID: "one", Dispute: d.Ref, Evidence: checkout.Evidence{Texts: map[string]string{"uncategorized_text": text}},
	}))(w.t)
}

// readRisks does what the books do about a charge.
func (w *world) readRisks(charge string) {
	risks := must.Get(w.cards.Risks(w.t.Context(), charge))(w.t)
	must.Get(w.Books.RecordRisks(w.t.Context(), checkout.ModeTest, storage.ChargeToCheck{Reference: charge}, risks))(w.t)
}

func (w *world) unfinished(d checkout.Dispute) []storage.Overdue {
	return must.Get(w.Installation.Unfinished(w.t.Context(), []string{d.ID}))(w.t)
}

func (w *world) sendEvidence(d checkout.Dispute) contract.EvidenceResult {
	return execute[contract.EvidenceResult](w.t, w.env(d.ID, time.Now()), contract.TypeDisputeEvidence, d.Ref)
}

func TestDisputeEvidence_WinsADispute(t *testing.T) {
	w := newWorld(t)
	d := w.contest("winning_evidence")
	require.Len(t, w.unfinished(d), 1, "Reconcile starts the run when nobody does")
	for range 2 { // a repeat sends nothing
		require.Zero(t, w.sendEvidence(d))
	}
	require.Empty(t, w.unfinished(d))
	w.readRisks(d.TransactionID)
	d = must.Get(w.Disputes.Dispute(t.Context(), d.Ref))(t)
	require.Equal(t, checkout.DisputeUnderReview, d.Status)
	require.NotNil(t, d.EvidenceSentAt)
	w.Exec(t, `UPDATE sandbox_dispute SET later_at = now()`)
	w.readRisks(d.TransactionID)
	require.Equal(t, checkout.DisputeWon, must.Get(w.Disputes.Dispute(t.Context(), d.Ref))(t).Status)
}

func TestDisputeEvidence_ThatComesTooLateIsRefused(t *testing.T) {
	w := newWorld(t)
	d := w.contest("winning_evidence")
	w.Exec(t, `UPDATE sandbox_dispute SET respond_by = now()`)
	require.Equal(t, contract.EvidenceResult{Failure: checkout.EvidenceNotAccepted}, w.sendEvidence(d))
	d = must.Get(w.Disputes.Dispute(t.Context(), d.Ref))(t)
	require.Equal(t, checkout.EvidenceNotAccepted, d.EvidenceFailure)
	require.Nil(t, d.EvidenceSentAt)
	require.Equal(t, 0, w.count(`SELECT count(*) FROM dispute_evidence WHERE content IS NOT NULL`))
}

func TestDisputeEvidence_WaitsWhileTheCardNetworkIsAway(t *testing.T) {
	w := newWorld(t)
	d := w.contest("winning_evidence")
	away := &muteNetwork{CardNetwork: w.cards}
	w.payments.Test.Cards[checkout.AcquirerSandbox] = away
	require.Equal(t, contract.EvidenceResult{Waits: true}, w.sendEvidence(d))
	require.Greater(t, away.asked, 3)
	require.Len(t, w.unfinished(d), 1, "Reconcile starts it again")
	w.payments.Test.Cards[checkout.AcquirerSandbox] = w.cards
	require.Zero(t, w.sendEvidence(d))
}

// muteNetwork is a card network that does not answer evidence.
type muteNetwork struct {
	*sandbox.CardNetwork
	asked int
}

func (n *muteNetwork) Respond(context.Context, string, checkout.Evidence) error {
	n.asked++
	return errors.New("the card network is away")
}
