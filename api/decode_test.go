package api

import (
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"
)

// nested is an object n levels deep.
func nested(n int) string {
	return strings.Repeat(`{"a":`, n-1) + `{}` + strings.Repeat(`}`, n-1)
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

func TestReadObject_ReadsAtMost64KiBAndOneByte(t *testing.T) {
	t.Parallel()
	var e *refusal

	body := strings.NewReader(strings.Repeat(" ", 1<<20))
	r := httptest.NewRequestWithContext(t.Context(), "POST", "/", body)
	r.Header.Set("Content-Type", "application/json")
	r.ContentLength = -1
	_, err := readObject(r)
	require.ErrorAs(t, err, &e)
	require.Equal(t, 413, e.kind.Status())
	require.Equal(t, "payload_too_large", e.body.Error)
	require.Equal(t, 1<<20-(64<<10+1), body.Len())

	body = strings.NewReader(strings.Repeat(" ", 1<<20))
	r = httptest.NewRequestWithContext(t.Context(), "POST", "/", body)
	r.Header.Set("Content-Type", "application/json")
	r.ContentLength = 1 << 20
	_, err = readObject(r)
	require.ErrorAs(t, err, &e)
	require.Equal(t, 413, e.kind.Status())
	require.Equal(t, 1<<20, body.Len(), "the length alone decides")

	full := `{"a":"` + strings.Repeat("x", 64<<10-8) + `"}`
	require.Len(t, full, 64<<10)
	r = httptest.NewRequestWithContext(t.Context(), "POST", "/", strings.NewReader(full))
	r.Header.Set("Content-Type", "application/json")
	_, err = readObject(r)
	require.NoError(t, err)
}

func TestReadObject_RefusesABodyThatBreaksOff(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequestWithContext(t.Context(), "POST", "/", iotest.ErrReader(errors.New("wires were cut")))
	r.Header.Set("Content-Type", "application/json")
	_, err := readObject(r)
	var e *refusal
	require.ErrorAs(t, err, &e)
	require.Equal(t, 400, e.kind.Status())
	require.NotContains(t, e.body.Message, "wires")
}

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
		fields := newFields(members, "metadata", "events", "amount", "customer_email")
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
		require.LessOrEqual(t, len(*fields.faults), maxFaults)
	})
}
