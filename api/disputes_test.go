package api

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"example.com/checkout/storage/storagetest"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/books"
	"example.com/checkout/workflows/checkout"
)

func TestDisputes_FollowTheCardNetwork(t *testing.T) {
	f := newFront(t)
	session, payout := f.paidSession()
	f.paidSession()
	f.disputes(session, books.RiskInquiry)
	list := f.answers(200, "GET", "/v1/disputes?session="+session, f.key, "")
	require.Len(t, list.ids(), 1)
	path := "/v1/disputes/" + list.ids()[0]
	require.Equal(t, "warning", f.do("GET", path, f.key, "").json["status"])
	require.NotContains(t, f.do("GET", "/v1/payouts/"+payout.ID, f.key, "").json, "deductions", "no money has moved")

	f.disputes(session, books.RiskOpen)
	got := f.answers(200, "GET", path, f.key, "").json
	for field, want := range map[string]any{
		"session_id": session, "transaction_id": f.transactionOf(session), "status": "needs_response", "reason": "fraudulent",
		"amount": 10.5, "currency": "USD", "fee": 15.0, "respond_by": "2100-01-02T03:04:05.000Z", "livemode": false, "closed_at": nil,
	} {
		require.Equal(t, want, got[field], field)
	}
	require.Equal(t, []string{got["id"].(string)}, f.do("GET", "/v1/disputes?status=needs_response", f.key, "").ids())
	require.Empty(t, f.do("GET", "/v1/disputes?status=lost", f.key, "").ids())
	require.Equal(t, []any{map[string]any{"type": "dispute", "source": got["id"], "amount": 10.39}},
		f.do("GET", "/v1/payouts/"+payout.ID, f.key, "").json["deductions"])

	f.disputes(session, books.RiskLost)
	lost := f.answers(200, "GET", path, f.key, "").json
	require.Equal(t, "lost", lost["status"])
	require.NotNil(t, lost["closed_at"])
	require.Nil(t, lost["respond_by"], "the bank wants nothing more")
	ended := f.do("GET", "/v1/payouts/"+payout.ID, f.key, "").json
	require.Equal(t, "disputed", ended["failure"].(map[string]any)["code"])
	require.Equal(t, "409 payment_refunded", f.retry(payout.ID).refused())
	f.exec(`UPDATE payout SET failure = 'recovered' WHERE id = $1`, payout.ID)
	require.Equal(t, "409 payout_empty", f.retry(payout.ID).refused())
	require.Equal(t, 1, f.count("event WHERE type = 'dispute.opened'"))
	require.Equal(t, 1, f.count("event WHERE type = 'dispute.closed'"))
}

// proofText is a body with one text of evidence.
func proofText(field, value string) string { return fmt.Sprintf(`{"texts":{%q:%q}}`, field, value) }

// proofFile is a body with one file of evidence.
func proofFile(field, content string) string {
	return fmt.Sprintf(`{"files":{%q:%q}}`, field, base64.StdEncoding.EncodeToString([]byte(content)))
}

// contested returns the path for evidence about an open dispute.
func (f *front) contested() (path string) {
	session, _ := f.paidSession()
	f.disputes(session, books.RiskOpen)
	return "/v1/disputes/" + f.answers(200, "GET", "/v1/disputes?session="+session, f.key, "").ids()[0] + "/evidence"
}

func TestEvidence_IsSubmittedOnceAndStartsTheRun(t *testing.T) {
	f := newFront(t)
	path := f.contested()
	started := f.started()
	body := `{"texts":{"customer_name":"Ann","product_description":"Line\n\tTwo"},"files":{"receipt":"JVBERi0="}}`
	got := f.answers(202, "POST", path, f.key, body).json
	evidence := got["evidence"].(map[string]any)
	require.NotNil(t, evidence["submitted_at"])
	require.Equal(t, []any{nil, nil}, []any{evidence["sent_at"], evidence["failure"]})
	require.Equal(t, []string{got["id"].(string)}, *started)
	require.Equal(t, "texts: 2, files: 1", storagetest.Value[string](t, f.Database, `SELECT detail FROM audit_entry WHERE action = 'dispute.answered'`))
	require.Equal(t, "evidence_submitted", f.answers(409, "POST", path, f.key, proofText("customer_name", "Bob")).json["error"])

	f.exec(`DELETE FROM dispute_evidence`)
	f.exec(`UPDATE charge_risk SET respond_by = now()`)
	require.Equal(t, "dispute_not_open", f.answers(409, "POST", path, f.key, proofText("customer_name", "Ann")).json["error"])
}

func TestEvidence_EachFaultNamesItsField(t *testing.T) {
	f := newFront(t)
	path := f.contested()
	large := "%PDF-" + strings.Repeat("x", checkout.EvidenceFilesLimit)
	for body, want := range map[string]string{
		`{}`:                                     "Send at least one text or file.",
		`{"texts":{}}`:                           "Send at least one text or file.",
		`{"texts":[]}`:                           "texts must be an object",
		`{"texts":{"receipt":"x"}}`:              "texts.receipt is not a known field",
		`{"texts":{"customer_name":7}}`:          "texts.customer_name must be a string",
		`{"files":{"receipt":"%%"}}`:             "files.receipt must be the content of the file in base64",
		`{"files":{"shipping":"JVBERi0="}}`:      "files.shipping is not a known field",
		`{"kind":"x"}`:                           "kind is not a known field",
		proofText("customer_name", ""):           "texts.customer_name is empty",
		`{"texts":{"customer_name":"a\u0000b"}}`: "texts.customer_name has control characters",
		proofText("customer_name", strings.Repeat("x", checkout.EvidenceTextLimit+1)): "texts.customer_name has more than 20000 characters",
		proofFile("receipt", "<html><script>"):                                        "files.receipt is not a PDF, JPEG or PNG file",
		proofFile("receipt", "MZ\x90\x00"):                                            "files.receipt is not a PDF, JPEG or PNG file",
		proofFile("receipt", "GIF89a"):                                                "files.receipt is not a PDF, JPEG or PNG file",
		proofFile("receipt", "PK\x03\x04 %PDF-1.7"):                                   "files.receipt is not a PDF, JPEG or PNG file",
		proofFile("receipt", "<svg onload='x'/>"):                                     "files.receipt is not a PDF, JPEG or PNG file",
		proofFile("receipt", ""):                                                      "files.receipt is not a PDF, JPEG or PNG file",
		proofFile("receipt", large):                                                   "This is too much: the files have more than 4500000 bytes together.",
		`{"texts":{"customer_name":""},"files":{"receipt":""}}`:                       "files.receipt is not a PDF, JPEG or PNG file",
	} {
		got := f.answers(400, "POST", path, f.key, body).json
		require.Contains(t, got["message"], want, body[:min(len(body), 80)])
	}
	require.Zero(t, f.count("dispute_evidence"))
	f.answers(413, "POST", path, f.key, proofText("customer_name", strings.Repeat("x", maxEvidenceBody)))
	f.answers(413, "POST", "/v1/checkout", f.key, proofText("customer_name", strings.Repeat("x", maxBody)))
	f.answers(202, "POST", path, f.key, proofFile("receipt", large[:checkout.EvidenceFilesLimit]))
}

// The process may also die there.
func TestEvidence_WithoutTemporalIsLeftToReconcile(t *testing.T) {
	f := newFront(t)
	path := f.contested()
	f.temporal.Start = func(client.StartWorkflowOptions) error { return errors.New("temporal is away") }
	got := f.answers(202, "POST", path, f.key, proofText("customer_name", "Ann"), idempotent, "k").json
	left := must.Get(f.store.Installation.Unfinished(t.Context(), []string{got["id"].(string)}))(t)
	require.Len(t, left, 1)
	require.Equal(t, "true", f.answers(202, "POST", path, f.key, proofText("customer_name", "Ann"), idempotent, "k").header.Get("Idempotent-Replayed"))
}
