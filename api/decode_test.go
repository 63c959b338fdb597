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
	for levels, taken := range map[int]bool{1: true, 8: true, 9: false} {
		_, err := decodeObject([]byte(strings.Repeat(`{"a":`, levels-1) + `{}` + strings.Repeat(`}`, levels-1)))
		require.Equal(t, taken, err == nil, levels)
	}
}

func TestReadObject_ReadsAtMost64KiBAndOneByte(t *testing.T) {
	t.Parallel()
	var e *refusal

	read := func(body *strings.Reader, length int64) error {
		r := httptest.NewRequestWithContext(t.Context(), "POST", "/", body)
		r.Header.Set("Content-Type", "application/json")
		r.ContentLength = length
		_, err := readObject(r)
		return err
	}
	for length, unread := range map[int64]int{-1: 1<<20 - (64<<10 + 1), 1 << 20: 1 << 20} { // a known length alone decides
		body := strings.NewReader(strings.Repeat(" ", 1<<20))
		require.ErrorAs(t, read(body, length), &e)
		require.Equal(t, 413, e.kind.Status())
		require.Equal(t, "payload_too_large", e.body.Error)
		require.Equal(t, unread, body.Len())
	}
	full := `{"a":"` + strings.Repeat("x", 64<<10-8) + `"}`
	require.Len(t, full, 64<<10)
	require.NoError(t, read(strings.NewReader(full), 64<<10))
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
