package storage_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"example.com/checkout/storage"
	"example.com/checkout/storage/pg"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/books"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
)

// contests notes how the dispute of a sale stands at the card network, and returns it.
func (f fixture) contests(t *testing.T, s sale, status books.RiskStatus, change ...func(*books.ChargeRisk)) checkout.Dispute {
	risk := books.ChargeRisk{
		ID: "du_" + s.payment, Kind: books.RiskDispute, Status: status, Amount: s.session.Amount, Currency: s.session.Currency,
		Reason: "fraudulent", RespondBy: time.Date(2100, 1, 2, 3, 4, 5, 0, time.UTC),
	}
	for _, c := range change {
		c(&risk)
	}
	must.Get(f.Books.RecordRisks(t.Context(), checkout.ModeTest, storage.ChargeToCheck{Reference: s.payment}, []books.ChargeRisk{risk}))(t)
	got := must.Get(f.Disputes.Disputes(t.Context(), s.session.Owner, storage.DisputeFilter{SessionID: s.session.ID}, pg.Page{Limit: 2}))(t)
	require.Len(t, got, 1)
	return got[0]
}

// submits submits a text as evidence; request is the same for a repeat.
func (f fixture) submits(d checkout.Dispute, request, text string, by ...merchant.AuditEntry) (checkout.Dispute, error) {
	return f.Disputes.SubmitEvidence(bg, storage.EvidenceOrder{
		RequestID: request, Dispute: d.Ref, SubmittedBy: "ann@shop.example",
		Evidence: checkout.Evidence{Texts: map[string]string{"customer_name": text}, Files: map[string][]byte{"receipt": []byte("%PDF-1")}},
	}, by...)
}

func TestSubmitEvidence_IsFinalAndItsContentGoesWhenTheNetworkHasIt(t *testing.T) {
	f := newFixture(t)
	s := f.sale(t)
	d := f.contests(t, s, books.RiskOpen)
	require.NoError(t, d.MayRespond())
	got := must.Get(f.submits(d, "one", "Ann\x00"))(t)
	require.NotNil(t, got.EvidenceAt)
	require.Equal(t, got, must.Get(f.submits(d, "one", "Ann\x00"))(t), "a repeat changes nothing")
	require.ErrorIs(t, must.Err(f.submits(d, "two", "Bob")), checkout.ErrEvidenceSubmitted)
	other := checkout.Owner{MerchantID: "mer_other", Mode: checkout.ModeTest}
	require.ErrorIs(t, must.Err(f.submits(checkout.Dispute{Ref: other.Ref(d.ID)}, "two", "Bob")), checkout.ErrNotFound)

	overdue := must.Get(f.Installation.Overdue(bg, -time.Minute, "dp", 1))(t)
	require.Equal(t, d.Ref, overdue[0].Ref, "Reconcile starts its run")
	e := must.Get(f.Disputes.EvidenceToSend(bg, d.Ref))(t)
	require.Equal(t, storage.EvidenceToSend{
		RequestID: "one", RiskID: "du_" + s.payment, Acquirer: checkout.AcquirerSandbox, Content: checkout.Evidence{
			Texts: map[string]string{"customer_name": "Ann\x00"}, Files: map[string][]byte{"receipt": []byte("%PDF-1")},
		},
	}, e)
	for range 2 { // a repeat
		require.NoError(t, f.Disputes.FinishEvidence(bg, d.Owner, e, ""))
	}
	require.ErrorIs(t, must.Err(f.Disputes.EvidenceToSend(bg, d.Ref)), checkout.ErrNotFound)
	require.Equal(t, "ann@shop.example true", f.query(t, `SELECT submitted_by || ' ' || (content IS NULL) FROM dispute_evidence`))
	got = must.Get(f.Disputes.Dispute(bg, d.Ref))(t)
	require.NotNil(t, got.EvidenceSentAt)
	require.Equal(t, got, must.Get(f.submits(d, "one", "Ann\x00"))(t), "a repeat after that")
	require.ErrorIs(t, must.Err(f.submits(d, "two", "Bob")), checkout.ErrEvidenceSubmitted)
}

func TestSubmitEvidence_OfTwoAtOnceOneIsTaken(t *testing.T) {
	f := newFixture(t)
	d := f.contests(t, f.sale(t), books.RiskOpen)
	conn := f.Connect(t) // nobody can insert before all have begun
	must.Get(conn.Exec(bg, `BEGIN; LOCK TABLE dispute_evidence IN SHARE MODE`))(t)
	errs := make([]error, 4)
	var group errgroup.Group
	for i := range errs {
		group.Go(func() error {
			_, errs[i] = f.submits(d, fmt.Sprint(i), fmt.Sprint(i), f.note())
			return nil
		})
	}
	require.Eventually(t, func() bool {
		return f.query(t, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) == int64(len(errs))
	}, 3*time.Second, 10*time.Millisecond)
	must.Get(conn.Exec(bg, `COMMIT`))(t)
	require.NoError(t, group.Wait())
	taken := 0
	for _, err := range errs {
		if err == nil {
			taken++
			continue
		}
		require.ErrorIs(t, err, checkout.ErrEvidenceSubmitted)
	}
	require.Equal(t, 1, taken)
	require.EqualValues(t, 1, f.query(t, `SELECT count(*) FROM audit_entry`), "the others left no entry")
}

func TestSubmitEvidence_NeedsABankThatTakesIt(t *testing.T) {
	f := newFixture(t)
	for words, change := range map[string]func(*books.ChargeRisk){
		"decided":    func(r *books.ChargeRisk) { r.Status = books.RiskLost },
		"too late":   func(r *books.ChargeRisk) { r.RespondBy = time.Now().Add(-time.Second) },
		"takes none": func(r *books.ChargeRisk) { r.RespondBy = time.Time{} },
		"has it":     func(r *books.ChargeRisk) { r.Responded = true },
	} {
		d := f.contests(t, f.sale(t), books.RiskOpen, change)
		require.ErrorIs(t, must.Err(f.submits(d, "one", "Ann")), checkout.ErrDisputeNotOpen, words)
	}
}

func TestSubmitEvidence_ComesAnewAfterARefusalAndAfterAnInquiry(t *testing.T) {
	f := newFixture(t)
	s := f.sale(t)
	d := f.contests(t, s, books.RiskInquiry)
	finish := func(failure checkout.EvidenceFailure) {
		require.NoError(t, f.Disputes.FinishEvidence(bg, d.Owner, must.Get(f.Disputes.EvidenceToSend(bg, d.Ref))(t), failure))
	}
	must.Get(f.submits(d, "one", "Ann"))(t)
	finish(checkout.EvidenceNotAccepted)
	refused := must.Get(f.Disputes.Dispute(bg, d.Ref))(t)
	require.Equal(t, checkout.EvidenceNotAccepted, refused.EvidenceFailure)
	require.Nil(t, refused.EvidenceSentAt)

	require.Empty(t, must.Get(f.submits(d, "two", "Ann"))(t).EvidenceFailure)
	f.contests(t, s, books.RiskOpen)
	require.ErrorIs(t, must.Err(f.submits(d, "three", "Ann")), checkout.ErrEvidenceSubmitted, "it goes to the dispute")
	finish("")
	require.Nil(t, must.Get(f.submits(d, "three", "Ann"))(t).EvidenceSentAt, "the inquiry has become a dispute")
	finish("")
	require.ErrorIs(t, must.Err(f.submits(d, "four", "Ann")), checkout.ErrEvidenceSubmitted)
}

func TestEraseCustomer_LeavesEvidenceThatIsNotSent(t *testing.T) {
	f := newFixture(t)
	email := erasedEmail
	s := f.sale(t, func(n *storage.NewSession) { n.CustomerEmail = &email })
	f.sends(t, s)
	d := f.contests(t, s, books.RiskOpen)
	must.Get(f.submits(d, "one", erasedEmail))(t)
	erase := func() storage.Erasure {
		return must.Get(f.Customers.EraseCustomer(bg, f.merchant.ID, erasedEmail, true, func(checkout.Ref) merchant.AuditEntry { return f.note() }))(t)
	}
	require.Equal(t, []storage.OpenData{{Ref: s.session.Ref, Why: "the evidence about dispute " + d.ID + " is not sent"}}, erase().Open)
	require.NoError(t, f.Disputes.FinishEvidence(bg, d.Owner, must.Get(f.Disputes.EvidenceToSend(bg, d.Ref))(t), ""))
	require.Empty(t, erase().Open)
	require.Empty(t, f.tablesWith(t, "ann.canary"))
}

func TestDispute_IsMailedOnceToOwnersAndDevelopers(t *testing.T) {
	f, _ := newFailing(t)
	s := f.sale(t)
	f.contests(t, s, books.RiskInquiry)
	for _, status := range []books.RiskStatus{books.RiskOpen, books.RiskWon, books.RiskOpen, books.RiskLost} {
		f.contests(t, s, status)
	}
	require.Equal(t, "usr_dev", f.mails(t, merchant.MailDisputeOpened))
	d := f.contests(t, s, books.RiskLost)
	require.Equal(t, "Dispute: "+d.ID+", test mode\nAmount: 10.50 EUR\nReason: fraudulent\nThe bank takes evidence until 2 Jan 2100 03:04 UTC.",
		f.query(t, `SELECT detail FROM mail WHERE page = $1`, "test/sessions/"+s.session.ID))
}
