package dashboard

import (
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"strings"

	"example.com/checkout/api/dashboard/page"
	"example.com/checkout/api/limit"
	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
)

// evidenceField is a field of the form. The API has more of them, which few merchants use.
type evidenceField struct {
	Name, Label string
	Long        bool // a text of several lines
}

var (
	evidenceTexts = []evidenceField{
		{Name: "product_description", Label: "What the customer bought", Long: true},
		{Name: "customer_name", Label: "Customer's name"},
		{Name: "customer_email_address", Label: "Customer's e-mail address"},
		{Name: "customer_purchase_ip", Label: "Customer's IP address at the purchase"},
		{Name: "shipping_address", Label: "Shipping address"},
		{Name: "shipping_carrier", Label: "Carrier"},
		{Name: "shipping_tracking_number", Label: "Tracking number"},
		{Name: "shipping_date", Label: "Day of shipping"},
		{Name: "access_activity_log", Label: "How the customer used what you sold", Long: true},
		{Name: "refund_refusal_explanation", Label: "Why there is no refund", Long: true},
		{Name: "uncategorized_text", Label: "Anything else", Long: true},
	}
	evidenceFiles = []evidenceField{
		{Name: "receipt", Label: "Receipt or invoice"},
		{Name: "customer_communication", Label: "Messages with the customer"},
		{Name: "shipping_documentation", Label: "Proof of the delivery"},
	}
)

// evidencePage has the form for evidence about a dispute.
type evidencePage struct {
	checkout.Dispute
	Closed string // why nothing can be sent, "" when something can
	Texts  []evidenceField
	Files  []evidenceField
	Typed  map[string]string
	Once   string // see evidenceRequest
	Fault  string
	Faults map[string]string // by field
}

const evidenceTitle = "Send evidence"

func newEvidencePage(d checkout.Dispute) evidencePage {
	return evidencePage{
		Dispute: d, Closed: evidenceFault(d.MayRespond()), Texts: evidenceTexts, Files: evidenceFiles,
		Typed: map[string]string{}, Faults: map[string]string{}, Once: hex.EncodeToString(checkout.NewSeed()),
	}
}

// showEvidence serves GET …/disputes/{id}/evidence.
func (s *server) showEvidence(_ page.Visit, d checkout.Dispute) (page.Answer, error) {
	return page.Show("evidence", evidenceTitle, newEvidencePage(d))
}

// uploadingOf lets each merchant send one form with evidence at a time: each takes some megabytes of memory.
var uploadingOf = limit.NewShares(1)

var evidenceSubmitted = page.Notice("evidence_submitted", "The evidence is on its way to the card network.")

// submitEvidence serves POST …/disputes/{id}/evidence.
func (s *server) submitEvidence(v page.Visit, d checkout.Dispute) (page.Answer, error) {
	turn, err := uploadingOf.Enter(v.Context(), v.MerchantID())
	if err != nil {
		return page.Answer{}, err
	}
	defer turn.Leave(false)

	p := newEvidencePage(d)
	e, fault := p.read(v)
	request, fresh := evidenceRequest(d.ID, v.PostFormValue("once"))
	switch {
	case fault != "":
		return p.refuse(fault)
	case !fresh:
		return p.refuse("The form is not complete. Nothing was sent. Try again.")
	case v.PostFormValue("sure") != "on":
		return p.refuse("Confirm that this is all of your evidence.")
	}
	order := storage.EvidenceOrder{RequestID: request, Dispute: d.Ref, Evidence: e}
	_, err = s.actions.SubmitEvidence(v.Context(), order, v.By())
	if fault := evidenceFault(err); fault != "" {
		p.Closed = fault
		return p.refuse("")
	}
	return page.GoToAfter(err, v.Path("/sessions/"+d.SessionID), evidenceSubmitted)
}

// evidenceRequest returns the id of the request of a form: a form that is sent twice counts once.
func evidenceRequest(disputeID, once string) (id string, ok bool) {
	seed, err := hex.DecodeString(once)
	if err != nil || len(seed) < 16 {
		return "", false
	}
	return checkout.SeededID(checkout.PrefixEvidence, append(seed, disputeID...)), true
}

// read reads the form. It returns a fault, "" for none; Faults has those of fields.
func (p *evidencePage) read(v page.Visit) (e checkout.Evidence, fault string) {
	const tooLarge = "The files are too large: at most 4.5 MB together. Choose them again."
	if err := v.ParseMultipartForm(maxEvidence); err != nil && !errors.Is(err, http.ErrNotMultipart) {
		return e, tooLarge
	}
	e = checkout.Evidence{Texts: map[string]string{}, Files: map[string][]byte{}}
	for _, f := range p.Texts {
		if text := strings.TrimSpace(v.PostFormValue(f.Name)); text != "" {
			p.Typed[f.Name], e.Texts[f.Name] = text, text
			p.check(f.Name, checkout.Evidence{Texts: map[string]string{f.Name: text}})
		}
	}
	for _, f := range p.Files {
		file, err := readFile(v, f.Name)
		if err != nil {
			return e, tooLarge
		}
		if len(file) > 0 {
			e.Files[f.Name] = file
			p.check(f.Name, checkout.Evidence{Files: map[string][]byte{f.Name: file}})
		}
	}
	unfit, ok := errors.AsType[*checkout.EvidenceError](e.Check())
	switch {
	case len(p.Faults) > 0:
		return e, "Nothing was sent. Correct the fields below, and choose your files again."
	case len(e.Texts)+len(e.Files) == 0:
		return e, "Enter a text or choose a file."
	case ok:
		return e, "This is too much: " + unfit.Why + "."
	}
	return e, ""
}

// check notes what the card network would not take of a field.
func (p *evidencePage) check(field string, e checkout.Evidence) {
	if unfit, ok := errors.AsType[*checkout.EvidenceError](e.Check()); ok && unfit.Field != "" {
		p.Faults[field] = "This " + unfit.Why + "."
	}
}

// readFile returns the content of an uploaded file, nil without one.
func readFile(v page.Visit, name string) ([]byte, error) {
	file, _, err := v.FormFile(name)
	if errors.Is(err, http.ErrMissingFile) || errors.Is(err, http.ErrNotMultipart) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(file) // the form is bounded
}

func (p *evidencePage) refuse(fault string) (page.Answer, error) {
	p.Fault = fault
	return page.Refuse("evidence", evidenceTitle, p)
}

// evidenceFault returns in words why no evidence can be sent, "" for another error and for none.
func evidenceFault(err error) string {
	switch {
	case errors.Is(err, checkout.ErrEvidenceSubmitted):
		return "Evidence about this dispute is submitted. It is sent once."
	case errors.Is(err, checkout.ErrDisputeNotOpen):
		return "The bank takes no evidence about this dispute, or none any more."
	}
	return ""
}
