package checkout_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/workflows/checkout"
)

func TestParseAmount(t *testing.T) {
	t.Parallel()
	for token, want := range map[string]checkout.Amount{
		"0.50": 50, "0.5": 50, "1": 100, "10.5": 1050, "10.50": 1050, "999999.99": 99_999_999, "999999": 99_999_900,
	} {
		got, err := checkout.ParseAmount(token)
		require.NoError(t, err, token)
		require.Equal(t, want, got, token)
	}
	for _, token := range []string{
		"", "-1", "-0", "+1", "1e2", "1E2", "1.", ".5", "01", "00.50", "10.505", "1.000", "0x10", "1_0", "1,0", " 1", "1 ", "NaN", `"10"`, "１",
	} {
		_, err := checkout.ParseAmount(token)
		require.Error(t, err, token)
	}
	for _, token := range []string{"0", "0.00", "0.49", "1000000", "1000000.00", "99999999999999999999", "9999999999.99"} {
		_, err := checkout.ParseAmount(token)
		require.ErrorContains(t, err, "must be between 0.50 and 999999.99", token)
	}
}

func TestAmount_PercentageRoundsHalfUp(t *testing.T) {
	t.Parallel()
	require.Equal(t, checkout.Amount(11), checkout.Amount(1050).Percentage(100)) // 10.5 cents
	require.Equal(t, checkout.Amount(0), checkout.Amount(49).Percentage(100))
	require.Equal(t, checkout.Amount(1), checkout.Amount(50).Percentage(100))
	require.Equal(t, "-0.05", checkout.Amount(-5).String())
}

func TestNewID_SortsByTimeAndNeverRepeats(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	var ids []string
	for range 10_000 {
		id := checkout.NewID(checkout.PrefixSession)
		require.True(t, checkout.IsID("cs", id), id)
		require.False(t, seen[id])
		seen[id] = true
		ids = append(ids, id[:12]) // the prefix and 45 of the 48 bits of the time
	}
	require.True(t, slices.IsSorted(ids))
	for _, id := range []string{"", "cs_", "cs_1", "txn_" + ids[0], checkout.NewID("txn"), checkout.NewID("cs") + "0", "CS" + checkout.NewID("cs")[2:], "cs_iiiiiiiiiiiiiiiiiiiiiiiiii", checkout.NewID("cs")[:27] + "\r\n", checkout.NewID("cs")[:26] + "\xff00"} {
		require.False(t, checkout.IsID("cs", id), id)
	}
}

func TestIDTime_IsTheTimeOfTheID(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 31, 9, 30, 0, 123e6, time.UTC)
	got, ok := checkout.IDTime("evt", checkout.FirstID("evt", at))
	require.True(t, ok)
	require.Equal(t, at, got)
	before := time.Now().Add(-time.Millisecond)
	got, ok = checkout.IDTime("evt", checkout.NewID("evt"))
	require.True(t, ok)
	require.WithinRange(t, got, before, time.Now())
	for _, id := range []string{"", "evt_", "evt_1", checkout.NewID("cs")} {
		_, ok = checkout.IDTime("evt", id)
		require.False(t, ok, id)
	}
}

// prints formats v in every usual way.
func prints(v any) []string {
	var log bytes.Buffer
	options := &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{} // a time may have the digits of a card
		}
		return a
	}}
	slog.New(slog.NewJSONHandler(&log, options)).Info("x", "v", v)
	text := log.String()
	slog.New(slog.NewTextHandler(&log, options)).Info("x", "v", v)
	return []string{text, log.String(), fmt.Sprint(v), fmt.Sprintf("%+v", v), fmt.Sprintf("%#v", v), fmt.Sprintf("%s", v), fmt.Sprintf("%d", v)}
}

// TestParseAmount_SaysWhatCameAndHowToMendIt checks the texts that merchants read after the field's
// name.
func TestParseAmount_SaysWhatCameAndHowToMendIt(t *testing.T) {
	t.Parallel()
	for token, want := range map[string]string{
		"59.970000000000006":               "59.970000000000006 has more than 2 decimals; send 59.97",
		"19.990000000000002":               "19.990000000000002 has more than 2 decimals; send 19.99",
		"10.499999999999998":               "10.499999999999998 has more than 2 decimals; send 10.50",
		"10.500":                           "10.500 has more than 2 decimals; send 10.50",
		"10.505":                           "10.505 has more than 2 decimals; send 10.51",
		"999999.991":                       "999999.991 has more than 2 decimals; send 999999.99",
		"1E+1":                             "1E+1 has an exponent; send 10.00",
		"1.05e1":                           "1.05e1 has an exponent; send 10.50",
		"0.30000000000000004":              "must be between 0.50 and 999999.99, not 0.30000000000000004",
		"0.499":                            "0.499 has more than 2 decimals; send 0.50",
		"999999.995":                       "must be between 0.50 and 999999.99, not 999999.995",
		"-10.50":                           "must be between 0.50 and 999999.99, not -10.50",
		"0":                                "must be between 0.50 and 999999.99, not 0",
		"1000000":                          "must be between 0.50 and 999999.99, not 1000000",
		"1e400":                            "must be between 0.50 and 999999.99, not 1e400",
		"1e999999999":                      "must be between 0.50 and 999999.99, not 1e999999999",
		"1e-999999999":                     "must be between 0.50 and 999999.99, not 1e-999999999",
		"1e99999999999999999999":           "must be between 0.50 and 999999.99, not 1e99999999999999999999",
		"1" + strings.Repeat("0", 60_000):  "must be between 0.50 and 999999.99, not 1" + strings.Repeat("0", 39) + "…",
		"1." + strings.Repeat("0", 60_000): "1." + strings.Repeat("0", 38) + "… has more than 2 decimals; send 1.00",
		"":                                 "must be a number in major units with at most 2 decimals, for example 10.50",
		"ten":                              "must be a number in major units with at most 2 decimals, for example 10.50",
		"+1":                               "must be a number in major units with at most 2 decimals, for example 10.50",
		"01":                               "must be a number in major units with at most 2 decimals, for example 10.50",
		"1_0":                              "must be a number in major units with at most 2 decimals, for example 10.50",
		"0x1p4":                            "must be a number in major units with at most 2 decimals, for example 10.50",
		"1/2":                              "must be a number in major units with at most 2 decimals, for example 10.50",
	} {
		_, err := checkout.ParseAmount(token)
		require.EqualError(t, err, want)
	}
}

func TestPayoutCurrencies_HaveTerms(t *testing.T) {
	t.Parallel()
	for _, c := range checkout.PayoutCurrencies {
		require.Positive(t, c.Places(), c)
		require.True(t, checkout.NetworkCurrency(c.Network()).Valid(), c)
		require.NotEmpty(t, c.TestPrice(), c)
	}
	for _, c := range checkout.Currencies {
		require.NotEmpty(t, c.TestPrice(), c)
	}
}
