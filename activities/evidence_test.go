package activities_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"

	"example.com/checkout/activities"
	"example.com/checkout/storage"
	"example.com/checkout/storage/pg"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
)

// contest disputes a payment at the double, and submits evidence about it.
func (w *till) contest(c charged, e checkout.Evidence) checkout.Dispute {
	require.NoError(w.t, w.card.Dispute(w.t.Context(), c.reference))
	w.round()
	d := w.disputeOf()
	return must.Get(w.Store.Disputes.SubmitEvidence(w.t.Context(), storage.EvidenceOrder{RequestID: "one", Dispute: d.Ref, Evidence: e}))(w.t)
}

func (w *till) disputeOf() checkout.Dispute {
	got := must.Get(w.Store.Disputes.Disputes(w.t.Context(), w.owner, storage.DisputeFilter{}, pg.Page{Limit: 2}))(w.t)
	require.Len(w.t, got, 1)
	return got[0]
}

func (w *till) sendEvidence(d checkout.Dispute) (failure checkout.EvidenceFailure, err error) {
	payments := &activities.Payments{Disputes: w.Store.Disputes, Live: activities.Networks{
		Cards: map[checkout.Acquirer]checkout.CardNetwork{checkout.AcquirerStripe: w.network},
	}}
	env := (&testsuite.WorkflowTestSuite{}).NewTestActivityEnvironment()
	env.RegisterActivity(payments)
	value, err := env.ExecuteActivity(payments.SendEvidence, d.Ref)
	if err == nil {
		err = value.Get(&failure)
	}
	return failure, err
}

var proof = checkout.Evidence{
	Texts: map[string]string{"uncategorized_text": "winning_evidence", "customer_name": "Ann"},
	Files: map[string][]byte{"receipt": []byte("%PDF-1.7 paid")},
}

func TestSendEvidence_WinsADisputeAtStripe(t *testing.T) {
	w := newTill(t)
	c := w.pay("visa")
	before := w.ledger()
	d := w.contest(c, proof)
	for range 2 { // a repeat finds nothing to send
		require.Empty(t, must.Get(w.sendEvidence(d))(t))
	}
	w.round()
	won := w.disputeOf()
	require.Equal(t, checkout.DisputeWon, won.Status)
	require.NotNil(t, won.EvidenceSentAt)
	require.NotContains(t, w.moved(before), "merchant:contested")
	w.requireAgrees("won")
}

// The process died after the network took the evidence, and before it was recorded.
func TestSendEvidence_ARepeatRecordsWhatTheNetworkHas(t *testing.T) {
	w := newTill(t)
	d := w.contest(w.pay("visa"), proof)
	e := must.Get(w.Store.Disputes.EvidenceToSend(t.Context(), d.Ref))(t)
	require.NoError(t, w.network.Respond(t.Context(), e.RiskID, e.Content))
	require.Empty(t, must.Get(w.sendEvidence(d))(t))
	require.NotNil(t, w.disputeOf().EvidenceSentAt)
}

func TestSendEvidence_IsRefusedAfterTheBankDecided(t *testing.T) {
	w := newTill(t)
	c := w.pay("visa")
	d := w.contest(c, proof)
	require.NoError(t, w.card.SetDispute(t.Context(), c.reference, "lost"))
	require.Equal(t, checkout.EvidenceNotAccepted, must.Get(w.sendEvidence(d))(t))
	require.Equal(t, checkout.EvidenceNotAccepted, w.disputeOf().EvidenceFailure)
}
