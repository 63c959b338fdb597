package checkout_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
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
		require.ErrorIs(t, err, checkout.ErrAmountFormat, token)
	}
	for _, token := range []string{"0", "0.00", "0.49", "1000000", "1000000.00", "99999999999999999999", "9999999999.99"} {
		_, err := checkout.ParseAmount(token)
		require.ErrorIs(t, err, checkout.ErrAmountRange, token)
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

// prints prints v in every way that code commonly does.
func prints(v any) []string {
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "v", v)
	text := log.String()
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "v", v)
	return []string{text, log.String(), fmt.Sprint(v), fmt.Sprintf("%+v", v), fmt.Sprintf("%#v", v), fmt.Sprintf("%s", v), fmt.Sprintf("%d", v)}
}
