package api

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"
)

// nested is an object n levels deep.
func nested(n int) string {
	return strings.Repeat(`{"a":`, n-1) + `{}` + strings.Repeat(`}`, n-1)
}

func TestDecodeObject_RefusesWhatIsNotOneStrictObject(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"empty":              ``,
		"white space":        " \n",
		"null":               `null`,
		"array":              `[]`,
		"string":             `"a"`,
		"number":             `1`,
		"bare word":          `amount`,
		"trailing object":    `{} {}`,
		"trailing brace":     `{}}`,
		"trailing word":      `{"a":1} x`,
		"trailing NUL":       "{}\x00",
		"trailing comma":     `{"a":1,}`,
		"missing comma":      `{"a":1 "b":2}`,
		"missing colon":      `{"a" 1}`,
		"unclosed":           `{"a":1`,
		"unclosed string":    `{"a":"`,
		"duplicate":          `{"a":1,"a":1}`,
		"duplicate escaped":  `{"a":1,"\u0061":1}`,
		"duplicate below":    `{"m":{"k":1,"k":2}}`,
		"invalid UTF-8":      "{\"a\":\"\xff\"}",
		"UTF-8 surrogate":    "{\"a\":\"\xed\xa0\x80\"}",
		"lone surrogate":     `{"a":"\ud800"}`,
		"byte order mark":    "\xef\xbb\xbf{}",
		"UTF-16":             "{\x00}\x00",
		"UTF-16 with mark":   "\xff\xfe{\x00}\x00",
		"comment":            `{/* */}`,
		"line comment":       "{} // a",
		"single quotes":      `{'a':1}`,
		"unquoted name":      `{a:1}`,
		"NaN":                `{"a":NaN}`,
		"Infinity":           `{"a":-Infinity}`,
		"hex":                `{"a":0x10}`,
		"leading zero":       `{"a":01}`,
		"leading plus":       `{"a":+1}`,
		"dot first":          `{"a":.5}`,
		"dot last":           `{"a":5.}`,
		"True":               `{"a":True}`,
		"raw newline":        "{\"a\":\"\n\"}",
		"bad escape":         `{"a":"\x41"}`,
		"9 levels":           nested(9),
		"10000 levels":       nested(10000),
		"10000 arrays":       `{"a":` + strings.Repeat("[", 10000) + strings.Repeat("]", 10000) + `}`,
		"unclosed deep":      strings.Repeat(`{"a":`, 10000),
		"vertical tab":       "\v{}",
		"non-breaking space": "\u00a0{}",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := decodeObject([]byte(body))
			var e *refusal
			require.ErrorAs(t, err, &e)
			require.Equal(t, http.StatusBadRequest, e.kind.Status())
			require.Equal(t, codeInvalidRequest, e.body.Error)
		})
	}
}

func TestDecodeObject_NamesTheDuplicateKey(t *testing.T) {
	t.Parallel()
	_, err := decodeObject([]byte(`{"metadata":{"k":1,"k":2}}`))
	var e *refusal
	require.ErrorAs(t, err, &e)
	require.Equal(t, "metadata.k", e.body.Param)
	require.Equal(t, "metadata.k appears twice", e.body.Message)
}

func TestDecodeObject_KeepsOrderAndTheBytesOfValues(t *testing.T) {
	t.Parallel()
	got, err := decodeObject([]byte(" {\"b\" : 1.50 , \"a\":\"\\u0041\\/\" ,\"c\":[1, 2],\"\\u0064\":null}\r\n"))
	require.NoError(t, err)
	require.Equal(t, []member{
		{"b", jsontext.Value(`1.50`)}, {"a", jsontext.Value(`"\u0041\/"`)},
		{"c", jsontext.Value(`[1, 2]`)}, {"d", jsontext.Value(`null`)},
	}, got)
}

func TestDecodeObject_TakesEightLevels(t *testing.T) {
	t.Parallel()
	_, err := decodeObject([]byte(nested(8)))
	require.NoError(t, err)
	got, err := decodeObject([]byte(`{}`))
	require.NoError(t, err)
	require.Empty(t, got)
}

func TestReadObject_MediaTypes(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		types, encodings []string
		ok               bool
	}{
		{types: []string{"application/json"}, ok: true},
		{types: []string{"Application/JSON"}, ok: true},
		{types: []string{"application/json; charset=utf-8"}, ok: true},
		{types: []string{`application/json;charset="UTF-8"`}, ok: true},
		{types: []string{"application/json"}, encodings: []string{"identity"}, ok: true},
		{},
		{types: []string{""}},
		{types: []string{"text/plain"}},
		{types: []string{"application/x-www-form-urlencoded"}},
		{types: []string{"application/problem+json"}},
		{types: []string{"application/json; charset=latin1"}},
		{types: []string{"application/json; charset="}},
		{types: []string{"application/json; version=1"}},
		{types: []string{"application/json, text/plain"}},
		{types: []string{"application/json;;"}},
		{types: []string{"application/json", "application/json"}},
		{types: []string{"application/json"}, encodings: []string{"gzip"}},
		{types: []string{"application/json"}, encodings: []string{"identity", "br"}},
		{types: []string{"application/json"}, encodings: []string{"identity, gzip"}},
	} {
		r := httptest.NewRequestWithContext(t.Context(), "POST", "/", strings.NewReader(`{}`))
		r.Header["Content-Type"], r.Header["Content-Encoding"] = tc.types, tc.encodings
		_, err := readObject(r)
		if tc.ok {
			require.NoError(t, err, "%v", tc)
			continue
		}
		var e *refusal
		require.ErrorAs(t, err, &e, "%v", tc)
		require.Equal(t, 415, e.kind.Status(), "%v", tc)
		require.Equal(t, "unsupported_media_type", e.body.Error)
	}
}

func TestReadObject_ReadsAtMost64KiBAndOneByte(t *testing.T) {
	t.Parallel()
	var e *refusal

	body := &endless{left: 100 << 20}
	r := httptest.NewRequestWithContext(t.Context(), "POST", "/", body)
	r.Header.Set("Content-Type", "application/json")
	r.ContentLength = -1
	_, err := readObject(r)
	require.ErrorAs(t, err, &e)
	require.Equal(t, 413, e.kind.Status())
	require.Equal(t, "payload_too_large", e.body.Error)
	require.Equal(t, 64<<10+1, body.read)

	body = &endless{left: 100 << 20}
	r = httptest.NewRequestWithContext(t.Context(), "POST", "/", body)
	r.Header.Set("Content-Type", "application/json")
	r.ContentLength = 100 << 20
	_, err = readObject(r)
	require.ErrorAs(t, err, &e)
	require.Equal(t, 413, e.kind.Status())
	require.Zero(t, body.read, "the length alone decides")

	full := `{"a":"` + strings.Repeat("x", 64<<10-8) + `"}`
	require.Len(t, full, 64<<10)
	r = httptest.NewRequestWithContext(t.Context(), "POST", "/", strings.NewReader(full))
	r.Header.Set("Content-Type", "application/json")
	_, err = readObject(r)
	require.NoError(t, err)
}

func TestReadObject_RefusesABodyThatBreaksOff(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequestWithContext(t.Context(), "POST", "/", brokenBody{})
	r.Header.Set("Content-Type", "application/json")
	_, err := readObject(r)
	var e *refusal
	require.ErrorAs(t, err, &e)
	require.Equal(t, 400, e.kind.Status())
	require.NotContains(t, e.body.Message, "wires")
}

type brokenBody struct{}

func (brokenBody) Read([]byte) (int, error) { return 0, errors.New("wires were cut") }

func FuzzDecodeObject(f *testing.F) {
	for _, seed := range []string{
		``, `{}`, validSession, nested(8), nested(9), `{"a":1,"a":2}`, `{"metadata":{"k":1,"k":2}}`, "\xef\xbb\xbf{}",
		`{"a":"\ud800"}`, `{"events":["*"],"url":"https://a.example"}`, `{} {}`, `{"a":[[[[1]]]]}`, `{"~":{"/":1,"/":2}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		members, err := decodeObject(body)
		if err != nil {
			var e *refusal
			require.ErrorAs(t, err, &e, "every fault is the merchant's")
			require.Equal(t, 400, e.kind.Status())
			return
		}
		require.True(t, jsontext.Value(body).IsValid())
		seen := map[string]bool{}
		var found faults
		fields := newFields(&found, members, "metadata", "events", "amount", "customer_email")
		for _, m := range members {
			require.False(t, seen[m.name], "no name twice")
			seen[m.name] = true
			require.True(t, m.value.IsValid())
		}
		// No input makes the readers of fields fall over.
		metadata, _ := fields.metadata()
		require.True(t, metadata == nil || jsontext.Value(metadata).Kind() == '{')
		fields.events()
		fields.amount()
		fields.email("customer_email")
		require.LessOrEqual(t, len(found), maxFaults)
	})
}
