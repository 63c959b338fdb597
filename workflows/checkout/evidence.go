package checkout

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Evidence answers a dispute in the fields of the card network's own form. It is sent once.
// Source: docs.stripe.com/api/disputes/update.
type Evidence struct {
	Texts map[string]string `json:"texts,omitempty"` // by field, see EvidenceTexts
	Files map[string][]byte `json:"files,omitempty"` // PDF, JPEG or PNG; by field, see EvidenceFiles
}

// EvidenceTexts lists the fields of evidence that are texts.
var EvidenceTexts = []string{
	"access_activity_log", "billing_address", "cancellation_policy_disclosure", "cancellation_rebuttal",
	"customer_email_address", "customer_name", "customer_purchase_ip", "duplicate_charge_explanation",
	"duplicate_charge_id", "product_description", "refund_policy_disclosure", "refund_refusal_explanation",
	"service_date", "shipping_address", "shipping_carrier", "shipping_date", "shipping_tracking_number",
	"uncategorized_text",
}

// EvidenceFiles lists the fields of evidence that are files.
var EvidenceFiles = []string{
	"cancellation_policy", "customer_communication", "customer_signature", "duplicate_charge_documentation", "receipt",
	"refund_policy", "service_documentation", "shipping_documentation", "uncategorized_file",
}

// Limits of evidence. Texts are counted in characters, files in bytes.
const (
	EvidenceTextLimit  = 20_000  // of a text
	EvidenceTextsLimit = 150_000 // of all texts
	EvidenceFilesLimit = 4_500_000
)

// fileTypes has the extension of each type of file that the card network takes, by the file's first bytes.
var fileTypes = map[string]string{"%PDF-": ".pdf", "\xff\xd8\xff": ".jpg", "\x89PNG\r\n\x1a\n": ".png"}

// FileExtension returns the extension for a file of evidence, such as .pdf; "" when the card network takes no such
// file. The content decides.
func FileExtension(file []byte) string {
	for start, extension := range fileTypes {
		if bytes.HasPrefix(file, []byte(start)) {
			return extension
		}
	}
	return ""
}

// EvidenceError is what the card network would not take.
type EvidenceError struct {
	Field string // "" for the whole
	Why   string
}

func (e *EvidenceError) Error() string {
	if e.Field == "" {
		return "evidence: " + e.Why
	}
	return fmt.Sprintf("evidence %s: %s", e.Field, e.Why)
}

func isControl(r rune) bool { return unicode.IsControl(r) && !strings.ContainsRune("\t\r\n", r) }

// Check returns an *EvidenceError for evidence that the card network would not take.
func (e Evidence) Check() error {
	texts, files := 0, 0
	for field, text := range e.Texts {
		n := utf8.RuneCountInString(text)
		texts += n
		switch {
		case !slices.Contains(EvidenceTexts, field):
			return &EvidenceError{field, "is no text of evidence"}
		case text == "":
			return &EvidenceError{field, "is empty"}
		case strings.ContainsFunc(text, isControl):
			return &EvidenceError{field, "has control characters other than line breaks and tabs"}
		case n > EvidenceTextLimit:
			return &EvidenceError{field, fmt.Sprintf("has more than %d characters", EvidenceTextLimit)}
		}
	}
	for field, file := range e.Files {
		files += len(file)
		switch {
		case !slices.Contains(EvidenceFiles, field):
			return &EvidenceError{field, "is no file of evidence"}
		case FileExtension(file) == "":
			return &EvidenceError{field, "is not a PDF, JPEG or PNG file"}
		}
	}
	switch {
	case len(e.Texts)+len(e.Files) == 0:
		return &EvidenceError{"", "is empty"}
	case texts > EvidenceTextsLimit:
		return &EvidenceError{"", fmt.Sprintf("the texts have more than %d characters together", EvidenceTextsLimit)}
	case files > EvidenceFilesLimit:
		return &EvidenceError{"", fmt.Sprintf("the files have more than %d bytes together", EvidenceFilesLimit)}
	}
	return nil
}
