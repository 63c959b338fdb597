package app

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"example.com/checkout/api/action"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/money"
)

const (
	feeFlag     = "fee-basis-points"
	fixedFlag   = "fee-fixed"
	maxFee      = 10000  // basis points: 100 % of the amount
	maxFixedFee = 100_00 // minor units
)

var planCommand = command{
	use:   "plan mer_… PLAN",
	short: "Change a merchant's plan from its next payment on",
	long: `Changes a merchant's plan from its next payment on. Its webhooks get merchant.updated.

Known plans are ` + knownPlans() + `. Any other plan needs its fee: basis points (100
are 1 %) and optionally a fixed part such as 0.30. The fixed part is in the currency of each payment:
0.30 USD of a payment in USD, 0.30 EUR of one in EUR.`,
	example: `  checkout merchant plan mer_06gzx1s5q8v2m9kd3yet7b4wnc growth
  checkout merchant plan mer_06gzx1s5q8v2m9kd3yet7b4wnc "their own" --fee-basis-points 290 --fee-fixed 0.30`,
	args: idAnd(checkout.PrefixMerchant, listsMerchants, "the plan"),
	flags: func(f *pflag.FlagSet) {
		f.Int64(feeFlag, 0, "`part` of each payment, for a custom plan")
		f.String(fixedFlag, "", "fixed `amount` per payment, for a custom plan (default 0.00)")
	},
	check: reading((*call).plan),
	run:   withKeyless(keylessCall.changePlan),
}

// knownPlans lists the plans with their fees.
func knownPlans() string {
	return strings.Join(each(merchant.Plans, func(p merchant.Plan) string {
		return fmt.Sprintf("%s (%s)", p.Name, p.Fee())
	}), " or ")
}

// parseFixedFee reads a fixed part such as 0.30.
func parseFixedFee(text string) (money.Amount, error) {
	minor, err := money.ParseUnits(text, money.USD.Places())
	if err != nil || !minor.IsInt64() || minor.Int64() > maxFixedFee {
		return 0, fmt.Errorf("--%s must be from 0.00 to %s, with at most 2 decimals", fixedFlag, money.Amount(maxFixedFee))
	}
	return money.Amount(minor.Int64()), nil
}

// plan returns the plan that the words and flags of merchant plan describe. An unknown plan needs a fee in basis
// points, and a known one has no other fee than its own.
func (c *call) plan() (p merchant.Plan, err error) {
	p.Name = c.args[1]
	if err := action.CheckLabel(p.Name); err != nil {
		return p, fmt.Errorf("--plan %w", err)
	}
	p.FeeBasisPoints, _ = c.flags.GetInt64(feeFlag)
	percent, fixed := c.flags.Changed(feeFlag), c.flags.Changed(fixedFlag)
	if fixed {
		if p.FeeFixed, err = parseFixedFee(c.text(fixedFlag)); err != nil {
			return p, err
		}
	}
	i := slices.IndexFunc(merchant.Plans, func(known merchant.Plan) bool { return known.Name == p.Name })
	if i < 0 {
		if !percent || p.FeeBasisPoints < 0 || p.FeeBasisPoints > maxFee {
			err = fmt.Errorf("%q needs --fee-basis-points from 0 to %d; known plans are %s", p.Name, maxFee, knownPlans())
		}
		return p, err
	}
	known := merchant.Plans[i]
	if percent && p.FeeBasisPoints != known.FeeBasisPoints || fixed && p.FeeFixed != known.FeeFixed {
		err = fmt.Errorf("the fee of %s is %s; another fee needs another name", known.Name, known.Fee())
	}
	return known, err
}

// changePlan changes a merchant's plan. The merchant.updated events are stored in the same transaction; Reconcile sends
// them.
func (c keylessCall) changePlan(ctx context.Context) (result, error) {
	plan := c.order.(merchant.Plan)
	changed, err := action.ChangePlan(ctx, c.Keyless.Merchants, c.args[0], plan, action.Operator)
	then := "; its webhooks get merchant.updated"
	if !changed {
		then = ", unchanged"
	}
	return resultLine(noMerchant(err, c.args[0]), "%s has the plan %s: %s of each payment%s",
		c.args[0], plan.Name, plan.Fee(), then)
}
