package checkout_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/workflows/checkout"
)

// TestCell_IsInEveryID changes the cell of the process, so it does not run beside other tests.
func TestCell_IsInEveryID(t *testing.T) { //nolint:paralleltest // see above
	for _, own := range []checkout.Cell{checkout.FirstCell, "7z"} {
		checkout.SetCell(own)
		for _, text := range []string{
			checkout.NewID(checkout.PrefixSession), checkout.SeededID(checkout.PrefixEvent, checkout.NewSeed()),
		} {
			got, ok := checkout.CellOf(text)
			require.True(t, ok, text)
			require.Equal(t, own, got, text)
		}
	}
	checkout.SetCell(checkout.FirstCell)
	for _, text := range []string{"", "cs_", "whsec_0000", checkout.NewID("cs") + "0"} {
		_, ok := checkout.CellOf(text)
		require.False(t, ok, text)
	}
	for _, bad := range []checkout.Cell{"", "0", "000", "0i", "0A", "0_"} {
		require.False(t, bad.Valid(), bad)
	}
}
