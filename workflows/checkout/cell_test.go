package checkout_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/workflows/checkout"
)

// TestCell_IsInEveryIDAndKey changes the cell of the process, so it does not run beside other tests.
func TestCell_IsInEveryIDAndKey(t *testing.T) { //nolint:paralleltest // see above
	for _, own := range []checkout.Cell{checkout.FirstCell, "7z"} {
		checkout.SetCell(own)
		for _, id := range []string{checkout.NewID(checkout.PrefixSession), checkout.SeededID(checkout.PrefixEvent, checkout.NewSeed())} {
			_, body, _ := strings.Cut(id, "_")
			require.EqualValues(t, own, body[10:12], id)
		}
		for mode, prefix := range map[checkout.Mode]string{checkout.ModeTest: "sk_test_", checkout.ModeLive: "sk_live_"} {
			require.True(t, strings.HasPrefix(checkout.NewAPIKey(mode), prefix+string(own)))
		}
	}
	checkout.SetCell(checkout.FirstCell)
	for _, bad := range []checkout.Cell{"", "0", "000", "0i", "0A", "0_"} {
		require.False(t, bad.Valid(), bad)
	}
}
