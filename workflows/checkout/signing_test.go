package checkout_test

import (
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/workflows/checkout"
)

func TestSigning_Decide(t *testing.T) {
	t.Parallel()
	units := func(usdc, eth int64) checkout.Purse {
		return checkout.PurseOf(checkout.NewCrypto(big.NewInt(usdc), checkout.USDC), checkout.NewCrypto(big.NewInt(eth), checkout.ETH))
	}
	for name, c := range map[string]struct {
		change func(s *checkout.SigningFacts)
		step   checkout.SigningStep
		hold   checkout.PayoutHold
	}{
		"all is well": {func(*checkout.SigningFacts) {}, checkout.SigningGo, ""},
		"a standing transfer goes before everything": {func(s *checkout.SigningFacts) {
			s.Standing, s.Pending, s.Frozen, s.Foreign = true, false, true, true
		}, checkout.SigningStands, ""},
		"decided":                    {func(s *checkout.SigningFacts) { s.Pending, s.Frozen = false, true }, checkout.SigningEnded, ""},
		"frozen":                     {func(s *checkout.SigningFacts) { s.Frozen, s.Foreign = true, true }, checkout.SigningHold, checkout.HoldFrozen},
		"a slot of nobody is in use": {func(s *checkout.SigningFacts) { s.Foreign = true }, checkout.SigningFreeze, checkout.HoldFrozen},
		"the charge may go back":     {func(s *checkout.SigningFacts) { s.AtRisk = true }, checkout.SigningHold, checkout.HoldRisk},
		"the payment is too young":   {func(s *checkout.SigningFacts) { s.Early, s.Settled = true, true }, checkout.SigningHold, checkout.HoldDelay},
		"too much is not settled":    {func(s *checkout.SigningFacts) { s.Unsettled++ }, checkout.SigningHold, checkout.HoldUnsettled},
		"this charge is settled":     {func(s *checkout.SigningFacts) { s.Unsettled, s.Settled = 1_000_000, true }, checkout.SigningGo, ""},
		"no limit of what is not settled": {func(s *checkout.SigningFacts) {
			s.Unsettled, s.Limits.MerchantUnsettled = 0, 0
		}, checkout.SigningHold, checkout.HoldUnsettled},
		"one payout's limit":      {func(s *checkout.SigningFacts) { s.Limits.Payout = 9_999 }, checkout.SigningHold, checkout.HoldLarge},
		"more than a day's limit": {func(s *checkout.SigningFacts) { s.Limits.Day = 9_999 }, checkout.SigningHold, checkout.HoldLarge},
		"released": {func(s *checkout.SigningFacts) {
			s.Released, s.Limits.Payout, s.MerchantDay, s.Day = true, 1, s.Limits.MerchantDay, s.Limits.Day
		}, checkout.SigningGo, ""},
		"released, and too young":    {func(s *checkout.SigningFacts) { s.Released, s.Early = true, true }, checkout.SigningHold, checkout.HoldDelay},
		"the merchant's limit":       {func(s *checkout.SigningFacts) { s.MerchantDay++ }, checkout.SigningHold, checkout.HoldLimit},
		"the day's limit":            {func(s *checkout.SigningFacts) { s.Day++ }, checkout.SigningHold, checkout.HoldLimit},
		"no limits":                  {func(s *checkout.SigningFacts) { s.Limits, s.Settled = checkout.PayoutLimits{}, true }, checkout.SigningHold, checkout.HoldLarge},
		"one unit too little":        {func(s *checkout.SigningFacts) { s.Has = units(149, 30) }, checkout.SigningHold, checkout.HoldFloat},
		"one unit of gas too little": {func(s *checkout.SigningFacts) { s.Has = units(150, 29) }, checkout.SigningHold, checkout.HoldFloat},
		"nothing is live":            {func(s *checkout.SigningFacts) { s.Has, s.Live = units(100, 10), nil }, checkout.SigningGo, ""},
		"no balance of the currency": {func(s *checkout.SigningFacts) { delete(s.Has, checkout.USDC) }, checkout.SigningHold, checkout.HoldFloat},
		"more is live than is there": {func(s *checkout.SigningFacts) { s.Live = units(1_000, 0) }, checkout.SigningHold, checkout.HoldFloat},
	} {
		s := checkout.SigningFacts{
			Pending: true, Value: 10_000, MerchantDay: 40_000, Day: 90_000,
			Unsettled: 20_000,
			Limits: checkout.PayoutLimits{
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
