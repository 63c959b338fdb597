package acquirer

import (
	"bytes"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Limits of evidence. Source: docs.stripe.com/file-upload and docs.stripe.com/api/disputes/update.
const (
	maxFile      = 5_000_000 // bytes of a file
	maxFiles     = 4_500_000 // bytes of all files of a dispute
	maxText      = 20_000    // characters of a field
	maxTexts     = 150_000   // characters of all fields
	purposeProof = "dispute_evidence"
)

// A filePart is the file of a request in multipart/form-data.
type filePart struct {
	name    string
	content []byte
}

// readParts reads a form in multipart/form-data; false for another one.
func readParts(contentType string, body []byte) (form url.Values, file filePart, is bool) {
	kind, parameters, err := mime.ParseMediaType(contentType)
	if err != nil || kind != "multipart/form-data" {
		return nil, file, false
	}
	form = url.Values{}
	parts := multipart.NewReader(bytes.NewReader(body), parameters["boundary"])
	for {
		part, err := parts.NextPart()
		if err != nil { // stripe-mock has read it
			return form, file, true
		}
		content, _ := io.ReadAll(part) // as above
		if part.FormName() == "file" {
			file = filePart{part.FileName(), content}
		} else {
			form.Add(part.FormName(), string(content))
		}
	}
}

// fileTypes are the types that evidence may have.
var fileTypes = map[string]string{"application/pdf": "pdf", "image/jpeg": "jpg", "image/png": "png"}

// createFile serves POST /v1/files. It keeps no content.
func (d desk) createFile() (object, error) {
	kind := fileTypes[http.DetectContentType(d.file.content)]
	switch {
	case d.form.Get("purpose") != purposeProof:
		return nil, invalid("", "The double takes files of evidence only.")
	case kind == "":
		return nil, invalid("", "The file type is not supported for this purpose: it must be PDF, JPEG or PNG.")
	case len(d.file.content) > maxFile:
		return nil, invalid("", "The file is larger than 5 MB.")
	}
	f := d.fixture
	f["id"], f["created"], f["expires_at"] = newID("file_"), time.Now().Unix(), nil
	f["filename"], f["title"], f["type"] = d.file.name, nil, kind
	f["purpose"], f["size"] = purposeProof, int64(len(d.file.content))
	f["url"] = "https://files.stripe.com/v1/files/" + f.text("id") + "/contents"
	f["links"] = object{
		"object": "list", "data": []any{}, "has_more": false, "url": "/v1/file_links?file=" + f.text("id"),
	}
	return f, d.insert(f, "", "")
}

// decisions has what a text of evidence makes of a dispute, as in Stripe's test mode. Stripe decides some seconds
// later. Source: docs.stripe.com/testing.
var decisions = map[string]string{"winning_evidence": "won", "losing_evidence": "lost"}

// updateDispute serves POST /v1/disputes/{id}. The evidence is kept, and sent to the bank unless submit is false.
func (d desk) updateDispute() (object, error) {
	o, err := d.find(kindDispute, d.path[1])
	if err != nil {
		return nil, err
	}
	if !strings.HasSuffix(o.text("status"), "needs_response") {
		return nil, invalid("", "This dispute does not take evidence: it is "+o.text("status")+".")
	}
	evidence := o.part("evidence")
	for name, values := range d.form {
		if field, is := strings.CutPrefix(name, "evidence["); is {
			evidence[strings.TrimSuffix(field, "]")] = values[0]
		}
	}
	o["evidence"] = evidence
	o.part("evidence_details")["has_evidence"] = true
	if err := d.checkEvidence(evidence); err != nil {
		return nil, err
	}
	if d.form.Get("submit") == "false" {
		return o, d.emit("charge.dispute.updated", o)
	}
	reviewed := strings.Replace(o.text("status"), "needs_response", "under_review", 1)
	err = d.moveDispute(o, reviewed, "charge.dispute.updated")
	decided := decisions[evidence.text("uncategorized_text")]
	if err != nil || decided == "" {
		return o, err
	}
	if strings.HasPrefix(o.text("status"), "warning_") {
		decided = "warning_closed"
	}
	waits := maps.Clone(o)
	return waits, d.moveDispute(o, decided, "charge.dispute.closed")
}

// evidenceFiles are the fields of evidence that name a file.
var evidenceFiles = []string{
	"cancellation_policy", "customer_communication", "customer_signature", "duplicate_charge_documentation", "receipt",
	"refund_policy", "service_documentation", "shipping_documentation", "uncategorized_file",
}

// checkEvidence refuses what is too long, and files that are not there.
func (d desk) checkEvidence(evidence object) error {
	characters, size := 0, int64(0)
	for field := range evidence {
		text := evidence.text(field)
		length := utf8.RuneCountInString(text)
		characters += length
		if length > maxText {
			return invalid("", field+" is longer than 20,000 characters.")
		}
		if text == "" || !slices.Contains(evidenceFiles, field) {
			continue
		}
		file, err := d.findNamed(kindFile, text)
		if err != nil {
			return err
		}
		size += file.number("size")
	}
	switch {
	case characters > maxTexts:
		return invalid("", "The evidence is longer than 150,000 characters.")
	case size > maxFiles:
		return invalid("", "The files are larger than 4.5 MB together.")
	}
	return nil
}
