package checkout

import (
	"bytes"
	"encoding/json"
)

// EncodeJSON is json.Marshal without the escapes for HTML. So a merchant gets its text back as it
// was sent. No answer or event is ever part of an HTML page.
func EncodeJSON(v any) ([]byte, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}
