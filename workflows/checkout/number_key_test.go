package checkout_test

import (
	"bytes"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/workflows/checkout"
)

func TestNumberKey_HidesNumbersAndFindsThem(t *testing.T) {
	t.Parallel()
	key, other := checkout.NumberKey(bytes.Repeat([]byte{7}, 32)), checkout.NumberKey(bytes.Repeat([]byte{8}, 32))
	at := time.Date(2026, 1, 31, 9, 30, 0, 123e6, time.UTC)
	require.Equal(t, "btx_06e16rta7c001x98kf5btr1fr0", key.ID("btx", at, 1), "in every version")
	require.Equal(t, "btx_06e16rta7c000p5mjntfr36rc0", key.ID("btx", at, 2))
	seen := map[string]bool{}
	for number := range int64(1000) {
		id := key.ID("btx", at, number)
		require.True(t, checkout.IsID("btx", id))
		require.Equal(t, number, key.Number(id))
		require.NotEqual(t, number, other.Number(id))
		seen[id] = true
	}
	require.Len(t, seen, 1000)
	require.EqualValues(t, math.MaxInt64, key.Number(key.ID("btx", at, math.MaxInt64)))
	require.Less(t, key.ID("btx", at, 2), key.ID("btx", at.Add(time.Millisecond), 1))
	for _, text := range []string{"", "btx_", "btx_1", "nonsense", "btx_iiiiiiiiiiiiiiiiiiiiiiiiii"} {
		require.Zero(t, key.Number(text), text)
	}
}
