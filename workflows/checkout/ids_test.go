package checkout_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/workflows/checkout"
)

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
