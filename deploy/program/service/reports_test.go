package service

import (
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/activities/stripe"
	"example.com/checkout/workflows/checkout"
)

func TestReported_OfTheOtherModeIsRefused(t *testing.T) {
	t.Parallel()
	for _, mode := range []checkout.Mode{checkout.ModeTest, checkout.ModeLive} {
		for _, livemode := range []bool{false, true} {
			got, err := reported(mode, stripe.Event{ID: "evt_1", Livemode: livemode, Type: "charge.refunded"})
			if livemode != mode.Live() {
				require.ErrorContains(t, err, "belongs to the other mode", "%s %v", mode, livemode)
				require.Empty(t, got.ID)
				continue
			}
			require.NoError(t, err)
			require.Equal(t, mode, got.Mode)
		}
	}
}
