package treasury_test

import (
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/treasury"
)

func TestSigning_Decide(t *testing.T) {
	t.Parallel()
	units := func(usdc, eth int64) money.Purse {
		return money.PurseOf(money.NewCrypto(big.NewInt(usdc), money.USDC), money.NewCrypto(big.NewInt(eth), money.ETH))
	}
	for name, c := range map[string]struct {
		change func(s *treasury.SigningFacts)
		step   treasury.SigningStep
		hold   checkout.PayoutHold
	}{
		"all is well": {func(*treasury.SigningFacts) {}, treasury.SigningGo, ""},
		"a standing transfer goes before everything": {func(s *treasury.SigningFacts) {
			s.Standing, s.Pending, s.Frozen, s.Foreign = true, false, true, true
		}, treasury.SigningStands, ""},
		"decided":                    {func(s *treasury.SigningFacts) { s.Pending, s.Frozen = false, true }, treasury.SigningEnded, ""},
		"frozen":                     {func(s *treasury.SigningFacts) { s.Frozen, s.Foreign = true, true }, treasury.SigningHold, checkout.HoldFrozen},
		"a slot of nobody is in use": {func(s *treasury.SigningFacts) { s.Foreign = true }, treasury.SigningFreeze, checkout.HoldFrozen},
		"the charge may go back":     {func(s *treasury.SigningFacts) { s.AtRisk = true }, treasury.SigningHold, checkout.HoldRisk},
		"payouts are suspended":      {func(s *treasury.SigningFacts) { s.Suspended, s.AtRisk = true, true }, treasury.SigningHold, checkout.HoldSuspended},
		"the payment is too young":   {func(s *treasury.SigningFacts) { s.Early, s.Settled = true, true }, treasury.SigningHold, checkout.HoldDelay},
		"too much is not settled":    {func(s *treasury.SigningFacts) { s.Unsettled++ }, treasury.SigningHold, checkout.HoldUnsettled},
		"this charge is settled":     {func(s *treasury.SigningFacts) { s.Unsettled, s.Settled = 1_000_000, true }, treasury.SigningGo, ""},
		"no limit of what is not settled": {func(s *treasury.SigningFacts) {
			s.Unsettled, s.Limits.MerchantUnsettled = 0, 0
		}, treasury.SigningHold, checkout.HoldUnsettled},
		"one payout's limit":      {func(s *treasury.SigningFacts) { s.Limits.Payout = 9_999 }, treasury.SigningHold, checkout.HoldLarge},
		"more than a day's limit": {func(s *treasury.SigningFacts) { s.Limits.Day = 9_999 }, treasury.SigningHold, checkout.HoldLarge},
		"released": {func(s *treasury.SigningFacts) {
			s.Released, s.Limits.Payout, s.MerchantDay, s.Day = true, 1, s.Limits.MerchantDay, s.Limits.Day
		}, treasury.SigningGo, ""},
		"released, and too young":    {func(s *treasury.SigningFacts) { s.Released, s.Early = true, true }, treasury.SigningHold, checkout.HoldDelay},
		"the merchant's limit":       {func(s *treasury.SigningFacts) { s.MerchantDay++ }, treasury.SigningHold, checkout.HoldLimit},
		"the day's limit":            {func(s *treasury.SigningFacts) { s.Day++ }, treasury.SigningHold, checkout.HoldLimit},
		"no limits":                  {func(s *treasury.SigningFacts) { s.Limits, s.Settled = treasury.PayoutLimits{}, true }, treasury.SigningHold, checkout.HoldLarge},
		"one unit too little":        {func(s *treasury.SigningFacts) { s.Has = units(149, 30) }, treasury.SigningHold, checkout.HoldFloat},
		"one unit of gas too little": {func(s *treasury.SigningFacts) { s.Has = units(150, 29) }, treasury.SigningHold, checkout.HoldFloat},
		"nothing is live":            {func(s *treasury.SigningFacts) { s.Has, s.Live = units(100, 10), nil }, treasury.SigningGo, ""},
		"no balance of the currency": {func(s *treasury.SigningFacts) { delete(s.Has, money.USDC) }, treasury.SigningHold, checkout.HoldFloat},
		"more is live than is there": {func(s *treasury.SigningFacts) { s.Live = units(1_000, 0) }, treasury.SigningHold, checkout.HoldFloat},
	} {
		s := treasury.SigningFacts{
			Pending: true, Value: 10_000, MerchantDay: 40_000, Day: 90_000,
			Unsettled: 20_000,
			Limits: treasury.PayoutLimits{
				Payout: 10_000, MerchantDay: 50_000, Day: 100_000, MerchantUnsettled: 30_000,
			},
			Spends: units(100, 10), Live: units(50, 20), Has: units(150, 30),
		}
		c.change(&s)
		step, hold := s.Decide()
		require.Equal(t, c.step, step, name)
		require.Equal(t, c.hold, hold, name)
	}
}
