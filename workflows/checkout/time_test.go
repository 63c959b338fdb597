package checkout_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/workflows/checkout"
)

// TestParseTime has the examples of RFC 3339, section 5.8, and what is near to them.
func TestParseTime(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"1985-04-12T23:20:50.52Z":             "1985-04-12T23:20:50.520Z",
		"1996-12-19T16:39:57-08:00":           "1996-12-20T00:39:57.000Z",
		"1990-12-31T23:59:60Z":                "1991-01-01T00:00:00.000Z",
		"1990-12-31T15:59:60-08:00":           "1991-01-01T00:00:00.000Z",
		"1937-01-01T12:00:27.87+00:20":        "1937-01-01T11:40:27.870Z",
		"2026-01-01t00:00:00z":                "2026-01-01T00:00:00.000Z",
		"2026-01-01T00:00:00.123456789+00:00": "2026-01-01T00:00:00.123Z",
		"2026-06-30T23:59:60.5Z":              "2026-07-01T00:00:00.500Z",
	} {
		got, err := checkout.ParseTime(text)
		require.NoError(t, err, text)
		require.Equal(t, want, checkout.FormatTime(got), text)
	}
	for _, text := range []string{
		"", "2026-01-01", "2026-01-01T00:00:00", "2026-01-01T00:00:00,5Z", "2026-01-01T00:00:00.Z", "2026-01-01 00:00:00Z",
		"2026-01-01T00:00:00 01:00", "2026-02-30T00:00:00Z", "2026-01-01T24:00:00Z", "2026-01-01T12:00:60Z", "2026-01-01T00:00:61Z",
		"2026-01-01T00:00:00+24:00", "2026-01-01T00:00:00+01:60", "2026-01-01T0:00:00Z", "10000-01-01T00:00:00Z", "2026-01-01T00:00:00Z\n",
	} {
		_, err := checkout.ParseTime(text)
		require.ErrorIs(t, err, checkout.ErrTime, text)
	}
}
