package checkout

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEvidence_IsCheckedAsTheCardNetworkDoes(t *testing.T) {
	t.Parallel()
	pdf, png, jpeg := []byte("%PDF-1.7"), []byte("\x89PNG\r\n\x1a\n"), []byte("\xff\xd8\xff")
	text := func(field, text string) Evidence { return Evidence{Texts: map[string]string{field: text}} }
	file := func(field string, file []byte) Evidence { return Evidence{Files: map[string][]byte{field: file}} }
	long := Evidence{Texts: map[string]string{}}
	for _, field := range EvidenceTexts[:8] {
		long.Texts[field] = strings.Repeat("ü", EvidenceTextsLimit/8+1)
	}
	for want, e := range map[string]Evidence{
		"": {
			Texts: map[string]string{"customer_name": "Ann", "uncategorized_text": strings.Repeat("ü", EvidenceTextLimit)},
			Files: map[string][]byte{"receipt": pdf, "customer_communication": png, "shipping_documentation": jpeg},
		},
		"evidence: is empty":                                            {},
		"evidence colour: is no text of evidence":                       text("colour", "red"),
		"evidence receipt: is no text of evidence":                      text("receipt", "file_1"),
		"evidence customer_name: is empty":                              text("customer_name", ""),
		"evidence service_date: has more than 20000 characters":         text("service_date", strings.Repeat("ü", 20_001)),
		"evidence: the texts have more than 150000 characters together": long,
		"evidence customer_name: is no file of evidence":                file("customer_name", pdf),
		"evidence receipt: is not a PDF, JPEG or PNG file":              file("receipt", []byte("GIF89a")),
		"evidence: the files have more than 4500000 bytes together":     file("receipt", append(pdf, bytes.Repeat([]byte("x"), 4_500_000)...)),
	} {
		err := e.Check()
		if want == "" {
			require.NoError(t, err)
			continue
		}
		var fault *EvidenceError
		require.ErrorAs(t, err, &fault)
		require.EqualError(t, err, want)
	}
}
