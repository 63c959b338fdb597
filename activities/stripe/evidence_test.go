package stripe_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
	api "github.com/stripe/stripe-go/v85"

	"example.com/checkout/deploy/standin/acquirer"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/books"
	"example.com/checkout/workflows/checkout"
)

var pdf = []byte("%PDF-1.7 receipt")

// disputed returns the dispute of a new payment.
func (w *world) disputed(status string) (reference, disputeID string) {
	_, reference = w.paid("visa")
	require.NoError(w, w.double.SetDispute(w.Context(), reference, status))
	return reference, must.Get(w.network.Risks(w.Context(), reference))(w)[0].ID
}

func (w *world) disputeOf(id string) *api.Dispute {
	return must.Get(w.api.V1Disputes.Retrieve(w.Context(), id, nil))(w)
}

func saying(text string) checkout.Evidence {
	return checkout.Evidence{
		Texts: map[string]string{"uncategorized_text": text, "customer_name": "Ann Example"},
		Files: map[string][]byte{"receipt": pdf, "customer_communication": []byte("\x89PNG\r\n\x1a\n")},
	}
}

func TestRespond_TheEvidenceDecides(t *testing.T) {
	t.Parallel()
	w := newDouble(t)
	for _, c := range []struct {
		opened, text string
		ended        books.RiskStatus
	}{
		{"needs_response", "winning_evidence", books.RiskWon},
		{"needs_response", "losing_evidence", books.RiskLost},
		{"needs_response", "a long story", books.RiskOpen},
		{"warning_needs_response", "winning_evidence", books.RiskWon},
		{"warning_needs_response", "a long story", books.RiskInquiry},
	} {
		reference, id := w.disputed(c.opened)
		for range 2 {
			require.NoError(t, w.network.Respond(t.Context(), id, saying(c.text)))
		}
		got := w.disputeOf(id)
		require.EqualValues(t, 1, got.EvidenceDetails.SubmissionCount, "it is sent once")
		require.Equal(t, c.text, got.Evidence.UncategorizedText)
		require.Equal(t, "Ann Example", got.Evidence.CustomerName)
		file := must.Get(w.api.V1Files.Retrieve(t.Context(), got.Evidence.Receipt.ID, nil))(t)
		require.Equal(t, api.FilePurposeDisputeEvidence, file.Purpose)
		require.Equal(t, "receipt.pdf", file.Filename)
		require.EqualValues(t, len(pdf), file.Size)
		risk := w.risks(reference)[0]
		require.Equal(t, c.ended, risk.Status)
		require.True(t, risk.Responded)
		require.Zero(t, risk.RespondBy)
	}
}

func TestRespond_AnAnsweredInquiryThatBecomesADisputeIsAnsweredAnew(t *testing.T) {
	t.Parallel()
	w := newDouble(t)
	reference, id := w.disputed("warning_needs_response")
	require.NoError(t, w.network.Respond(t.Context(), id, saying("a long story")))
	require.NoError(t, w.double.SetDispute(t.Context(), reference, "needs_response"))
	risk := w.risks(reference)[0]
	require.Equal(t, []any{false, inTime}, []any{risk.Responded, risk.RespondBy})
	require.NoError(t, w.network.Respond(t.Context(), id, saying("winning_evidence")))
	require.Equal(t, books.RiskWon, w.risks(reference)[0].Status)
}

func TestRespond_WhatNoBankTakesIsAConflict(t *testing.T) {
	t.Parallel()
	w := newDouble(t)
	for _, status := range []string{"won", "lost", "warning_closed"} {
		_, id := w.disputed(status)
		require.ErrorIs(t, w.network.Respond(t.Context(), id, saying("winning_evidence")), checkout.ErrConflict, status)
	}
	for _, id := range []string{"du_unknown", "issfr_1", "du_1/close", ""} {
		require.ErrorIs(t, w.network.Respond(t.Context(), id, saying("winning_evidence")), checkout.ErrNotFound, id)
	}
	_, id := w.disputed("needs_response")
	require.ErrorAs(t, w.network.Respond(t.Context(), id, checkout.Evidence{}), new(*checkout.EvidenceError))
}

func TestRespond_ALostAnswerSendsNothingTwice(t *testing.T) {
	t.Parallel()
	for _, kind := range []acquirer.Fault{
		{Kind: acquirer.FaultLost, Match: "POST /v1/disputes", Count: often},
		{Kind: acquirer.FaultBroken, Match: "POST /v1/disputes", Count: 1, AfterEffect: true},
	} {
		w := newDouble(t)
		_, id := w.disputed("needs_response")
		w.fault(kind)
		require.NoError(t, w.network.Respond(t.Context(), id, saying("a long story")))
		require.EqualValues(t, 1, w.disputeOf(id).EvidenceDetails.SubmissionCount)
	}
	w := newDouble(t)
	_, id := w.disputed("needs_response")
	for _, at := range []string{"POST /v1/files", "POST /v1/disputes"} {
		w.fault(acquirer.Fault{Kind: acquirer.FaultBroken, Match: at, Count: 1})
		err := w.network.Respond(t.Context(), id, saying("a long story"))
		require.ErrorContains(t, err, "Stripe answered 500")
		require.NotErrorIs(t, err, checkout.ErrConflict, "a repeat may mend it")
	}
	require.NoError(t, w.network.Respond(t.Context(), id, saying("a long story")))
	require.EqualValues(t, 1, w.disputeOf(id).EvidenceDetails.SubmissionCount)
}

// The network refuses too much before it asks. These requests go past it.
func TestEvidence_TheDoubleRefusesWhatStripeRefuses(t *testing.T) {
	t.Parallel()
	w := newDouble(t)
	upload := func(content []byte) (string, error) {
		file, err := w.api.V1Files.Create(t.Context(), &api.FileCreateParams{
			FileReader: bytes.NewReader(content), Filename: api.String("x.pdf"), Purpose: api.String("dispute_evidence"),
		})
		if err != nil {
			return "", err
		}
		return file.ID, nil
	}
	require.ErrorContains(t, must.Err(upload([]byte("GIF89a"))), "PDF, JPEG or PNG")
	require.ErrorContains(t, must.Err(upload(append(pdf, make([]byte, 5_000_000)...))), "larger than 5 MB")
	large := must.Get(upload(append(pdf, make([]byte, 2_300_000)...)))(t)

	_, id := w.disputed("needs_response")
	send := func(e *api.DisputeUpdateEvidenceParams) error {
		return must.Err(w.api.V1Disputes.Update(t.Context(), id, &api.DisputeUpdateParams{Evidence: e}))
	}
	long := api.String(string(bytes.Repeat([]byte("x"), 20_001)))
	require.ErrorContains(t, send(&api.DisputeUpdateEvidenceParams{Receipt: api.String("file_unknown")}), "No such file")
	require.ErrorContains(t, send(&api.DisputeUpdateEvidenceParams{Receipt: &large, RefundPolicy: &large}), "4.5 MB together")
	require.ErrorContains(t, send(&api.DisputeUpdateEvidenceParams{ShippingAddress: long}), "20,000 characters")
	require.Zero(t, w.disputeOf(id).EvidenceDetails.SubmissionCount)
	require.NoError(t, send(&api.DisputeUpdateEvidenceParams{Receipt: &large}))
	require.ErrorContains(t, send(&api.DisputeUpdateEvidenceParams{Receipt: &large}), "does not take evidence")
}
