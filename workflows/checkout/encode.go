package checkout

import (
	"bytes"
	"encoding/json"
)

// EncodeJSON is json.Marshal without the escapes for HTML: what a merchant sent
// comes back as it was sent, and no answer or event is ever part of a page.
func EncodeJSON(v any) ([]byte, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}
