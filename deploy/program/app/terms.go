package app

import (
	"context"
	"errors"

	"github.com/spf13/pflag"

	"example.com/checkout/api/action"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/money"
)

var termsCommand = command{
	use:   "terms mer_…",
	short: "Change what a merchant's plan says beside the fee",
	long: `Changes the reserve, the payout delay, the debt limit and the recovery of a merchant, in both modes. What no flag names
stays. A reserve begins with the next payment; the others hold at once, also for payouts that are not signed. The
merchant's webhooks get merchant.updated. checkout merchant show has the present terms.

--reserve keeps a part of each payment for --reserve-days; 0 ends it, and what is kept is released at its time.
--debt is what the merchant may owe after its refunds, in all currencies together, one to one. --recovery is the part of
each payout that pays what the merchant owes.`,
	example: `  checkout merchant terms mer_06gzx1s5q8v2m9kd3yet7b4wnc --reserve 1000 --reserve-days 90 --delay-hours 72
  checkout merchant terms mer_06gzx1s5q8v2m9kd3yet7b4wnc --debt 500.00 --recovery 50`,
	args: idAnd(checkout.PrefixMerchant, listsMerchants),
	flags: func(f *pflag.FlagSet) {
		f.Int64("reserve", 0, "basis `points` of each payment's net that are kept; 100 are 1 %")
		f.Int("reserve-days", 0, "for how many `days` they are kept")
		f.Int("delay-hours", 0, "`hours` from a payment to its payout; -1: the installation's delay")
		f.String("debt", "", "`amount` that may be owed, such as 500.00; default: 0.00 in live mode")
		f.Int("recovery", 100, "`percent` of each payout that pays a debt")
	},
	check: func(c *call) error {
		for _, flag := range []string{"reserve", "reserve-days", "delay-hours", "debt", "recovery"} {
			if c.flags.Changed(flag) {
				_, err := c.terms(merchant.Terms{RecoveryPercent: 100, ReserveBasisPoints: 1, ReserveDays: 1})
				return err
			}
		}
		return errors.New("choose what to change: --reserve, --delay-hours, --debt or --recovery")
	},
	run: withKeyless(keylessCall.changeTerms),
}

// terms returns the terms with what the flags change.
func (c *call) terms(t merchant.Terms) (merchant.Terms, error) {
	if c.flags.Changed("reserve") {
		t.ReserveBasisPoints, _ = c.flags.GetInt64("reserve")
	}
	if c.flags.Changed("reserve-days") {
		t.ReserveDays, _ = c.flags.GetInt("reserve-days")
	}
	if t.ReserveBasisPoints == 0 {
		t.ReserveDays = 0
	}
	if c.flags.Changed("recovery") {
		t.RecoveryPercent, _ = c.flags.GetInt("recovery")
	}
	if hours, _ := c.flags.GetInt("delay-hours"); hours < 0 {
		t.PayoutDelayHours = nil
	} else if c.flags.Changed("delay-hours") {
		t.PayoutDelayHours = &hours
	}
	switch text := c.text("debt"); {
	case text == "default":
		t.DebtLimit = nil
	case text != "":
		minor, err := money.ParseUnits(text, money.USD.Places())
		if err != nil || !minor.IsInt64() {
			return t, errors.New("--debt must be an amount such as 500.00, or default")
		}
		limit := money.Amount(minor.Int64())
		t.DebtLimit = &limit
	}
	return t, t.Check()
}

func (c keylessCall) changeTerms(ctx context.Context) (result, error) {
	m, err := c.Merchants.Merchant(ctx, c.args[0])
	if err != nil {
		return nil, noMerchant(err, c.args[0])
	}
	terms, err := c.terms(m.Terms)
	if err != nil {
		return nil, err
	}
	changed, err := action.ChangeTerms(ctx, c.Keyless.Merchants, m.ID, terms, action.Operator)
	then := "; its webhooks get merchant.updated"
	if !changed {
		then = ", unchanged"
	}
	return resultLine(noMerchant(err, m.ID), "%s: %s%s", m.ID, terms.Words(), then)
}
