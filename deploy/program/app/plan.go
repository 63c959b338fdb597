package app

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"example.com/checkout/api/action"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/money"
)

// knownPlans lists the plans with their fees.
func knownPlans() string {
	return strings.Join(each(merchant.Plans, func(p merchant.Plan) string {
		return fmt.Sprintf("%s (%s)", p.Name, p.Fee())
	}), " or ")
}

const (
	feeFlag     = "fee-basis-points"
	fixedFlag   = "fee-fixed"
	maxFee      = 10000  // basis points: 100 % of the amount
	maxFixedFee = 100_00 // minor units
)

// typedFee is a fee as the flags give it.
type typedFee struct {
	merchant.Fee

	percent, fixed bool // which parts were given
}

func (c *call) merchantPlanCommand() *cobra.Command {
	var fee typedFee
	var plan merchant.Plan
	command := &cobra.Command{
		Use:   "plan mer_… PLAN",
		Short: "Change a merchant's plan from its next payment on",
		Long: `Changes a merchant's plan from its next payment on. Its webhooks get merchant.updated.

Known plans are ` + knownPlans() + `. Any other plan needs its fee: basis points (100
are 1 %) and optionally a fixed part such as 0.30. The fixed part is in the currency of each payment:
0.30 USD of a payment in USD, 0.30 EUR of one in EUR.`,
		Example: `  checkout merchant plan mer_06gzx1s5q8v2m9kd3yet7b4wnc growth
  checkout merchant plan mer_06gzx1s5q8v2m9kd3yet7b4wnc "their own" --fee-basis-points 290 --fee-fixed 0.30`,
		Args: idAnd(checkout.PrefixMerchant, listsMerchants, "the plan"),
		PreRunE: func(command *cobra.Command, args []string) (err error) {
			fee.percent, fee.fixed = command.Flags().Changed(feeFlag), command.Flags().Changed(fixedFlag)
			plan, err = choosePlan(args[1], fee)
			return err
		},
		RunE: c.operator(func(ctx context.Context, c console, args []string) error {
			return c.setPlan(ctx, args[0], plan)
		}),
	}
	command.Flags().Int64Var(&fee.BasisPoints, feeFlag, 0, "`part` of each payment, for a custom plan")
	command.Flags().Func(fixedFlag, "fixed `amount` per payment, for a custom plan (default 0.00)",
		func(text string) (err error) {
			fee.Fixed, err = parseFixedFee(text)
			return err
		})
	return command
}

// parseFixedFee reads a fixed part such as 0.30.
func parseFixedFee(text string) (money.Amount, error) {
	minor, err := money.ParseUnits(text, money.USD.Places())
	if err != nil || !minor.IsInt64() || minor.Int64() > maxFixedFee {
		return 0, fmt.Errorf("must be from 0.00 to %s, with at most 2 decimals", money.Amount(maxFixedFee))
	}
	return money.Amount(minor.Int64()), nil
}

// choosePlan returns the plan with this name. An unknown plan needs a fee in basis points.
func choosePlan(name string, fee typedFee) (merchant.Plan, error) {
	if err := checkWords("plan", name); err != nil {
		return merchant.Plan{}, err
	}
	i := slices.IndexFunc(merchant.Plans, func(p merchant.Plan) bool { return p.Name == name })
	switch {
	case i >= 0 && fee.differs(merchant.Plans[i].Fee()):
		return merchant.Plan{}, fmt.Errorf("the fee of %s is %s; another fee needs another name",
			name, merchant.Plans[i].Fee())
	case i >= 0:
		return merchant.Plans[i], nil
	case !fee.percent || fee.BasisPoints < 0 || fee.BasisPoints > maxFee:
		return merchant.Plan{}, fmt.Errorf("%q needs --fee-basis-points from 0 to %d; known plans are %s",
			name, maxFee, knownPlans())
	}
	return merchant.Plan{Name: name, FeeBasisPoints: fee.BasisPoints, FeeFixed: fee.Fixed}, nil
}

// differs reports whether a part was given that is not the one of known.
func (f typedFee) differs(known merchant.Fee) bool {
	return f.percent && f.BasisPoints != known.BasisPoints || f.fixed && f.Fixed != known.Fixed
}

// setPlan changes a merchant's plan. The merchant.updated events are stored in the same
// transaction; Reconcile sends them.
func (c console) setPlan(ctx context.Context, merchantID string, plan merchant.Plan) error {
	changed, err := action.ChangePlan(ctx, c.Accounts.Merchants, merchantID, plan, action.Operator)
	then := "; its webhooks get merchant.updated"
	if !changed {
		then = ", unchanged"
	}
	return c.said(noMerchant(err, merchantID), "%s has the plan %s: %s of each payment%s\n",
		merchantID, plan.Name, plan.Fee(), then)
}
