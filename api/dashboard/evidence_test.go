package dashboard

import (
	"bytes"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"example.com/checkout/storage"
	"example.com/checkout/storage/pg"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/books"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
)

// contested returns a dispute and the path of its form.
func (d *desk) contested(mode checkout.Mode) (checkout.Dispute, string) {
	s, _ := d.paid(d.merchant, mode)
	d.dispute(s, books.RiskOpen)
	of := must.Get(d.store.Disputes.Disputes(d.t.Context(), s.Owner, storage.DisputeFilter{SessionID: s.ID}, pg.Page{Limit: 1}))(d.t)[0]
	return of, "/" + string(mode) + "/disputes/" + of.ID + "/evidence"
}

// sendFiles sends a form with files, as a browser does.
func (f form) sendFiles(files map[string]string, typed ...string) received {
	var body bytes.Buffer
	w := multipart.NewWriter(&body)
	for name, values := range f.with(typed...).fields {
		require.NoError(f.b.t, w.WriteField(name, values[0]))
	}
	for name, content := range files {
		part := must.Get(w.CreateFormFile(name, "../../etc/passwd.exe"))(f.b.t)
		must.Get(part.Write([]byte(content)))(f.b.t)
	}
	require.NoError(f.b.t, w.Close())
	r := must.Get(http.NewRequestWithContext(f.b.t.Context(), http.MethodPost, f.b.address(f.action), &body))(f.b.t)
	r.Header.Set("Content-Type", w.FormDataContentType())
	return f.b.do(r)
}

func TestEvidence_AFormIsSentOnce(t *testing.T) {
	d := newDesk(t)
	of, path := d.contested(checkout.ModeTest)
	session := "/test/sessions/" + of.SessionID
	owner, developer := d.as(merchant.RoleOwner), d.as(merchant.RoleDeveloper)
	developer.get(session).hides("Send evidence")
	developer.get(path).is(403)
	developer.post(path, "product_description", "x").is(403)
	d.as(merchant.RoleOwner).get(strings.Replace(path, "/test/", "/live/", 1)).is(404)
	var started []string
	d.temporal.Start = func(o client.StartWorkflowOptions) error { started = append(started, o.ID); return nil }

	owner.get(session).shows(`href="` + path + `" role="button" class="small">Send evidence`)
	owner.get(path).shows("2 Jan 2100", "It is sent once")
	form := owner.form(path, path)
	pdf := map[string]string{"receipt": "%PDF-1.7", "shipping_documentation": ""}
	form.sendFiles(pdf, "product_description", "A chair").is(422).shows("Confirm that this is all", "A chair")
	form.sendFiles(nil, "sure", "on").is(422).shows("Enter a text or choose a file.")
	form.sendFiles(map[string]string{"receipt": "<html>"}, "sure", "on", "customer_name", "<b>\x00").is(422).
		shows("This is not a PDF, JPEG or PNG file.", "This has control characters", "choose your files again")
	form.sendFiles(map[string]string{"receipt": "%PDF-" + strings.Repeat("x", checkout.EvidenceFilesLimit)}, "sure", "on").is(422).shows("bytes together")
	form.sendFiles(map[string]string{"receipt": "%PDF-" + strings.Repeat("x", maxEvidence)}, "sure", "on").is(422).shows("at most 4.5 MB")
	form.sendFiles(pdf, "sure", "on", "once", "").is(422).shows("The form is not complete.")
	require.Empty(t, started)

	for range 2 { // a double click
		form.sendFiles(pdf, "sure", "on", "product_description", "A chair\r\nblue").leads(session + " evidence_submitted")
	}
	require.Equal(t, of.ID, started[0])
	e := must.Get(d.store.Disputes.EvidenceToSend(t.Context(), of.Ref))(t)
	require.Equal(t, checkout.Evidence{
		Texts: map[string]string{"product_description": "A chair\r\nblue"}, Files: map[string][]byte{"receipt": []byte("%PDF-1.7")},
	}, e.Content)
	require.Equal(t, "texts: 1, files: 1", value[string](d, `SELECT detail FROM audit_entry WHERE action = 'dispute.answered' AND subject = $1`, of.ID))
	owner.get(session).shows("submitted").hides("Send evidence…")
	owner.get(path).shows("Evidence about this dispute is submitted.").hides("<textarea")

	require.NoError(t, d.store.Disputes.FinishEvidence(t.Context(), of.Owner, e, checkout.EvidenceNotAccepted))
	owner.get(session).shows("not accepted by the card network", "Send evidence…")
	d.exec(`UPDATE charge_risk SET respond_by = now()`)
	owner.get(path).shows("The bank takes no evidence")
}
