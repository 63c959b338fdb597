package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
)

// knownPlans lists the plans with their fees.
func knownPlans() string {
	var plans []string
	for _, p := range checkout.Plans {
		plans = append(plans, fmt.Sprintf("%s (%d)", p.Name, p.FeeBasisPoints))
	}
	return strings.Join(plans, " or ")
}

const (
	feeFlag = "fee-basis-points"
	maxFee  = 10000 // basis points: 100 % of the amount
)

func (c *call) merchantPlanCommand() *cobra.Command {
	var fee int64
	var command *cobra.Command
	command = &cobra.Command{
		Use:   "plan mer_… PLAN",
		Short: "Give a merchant another plan from its next payment on",
		Long: `Gives a merchant another plan from its next payment on. Its webhooks get merchant.updated.

Known plans are ` + knownPlans() + `: the number is the fee in basis points, of which 100 are 1 %.
Another plan needs its fee.`,
		Example: `  checkout merchant plan mer_06gzx1s5q8v2m9kd3yet7b4wnc growth
  checkout merchant plan mer_06gzx1s5q8v2m9kd3yet7b4wnc "their own" --fee-basis-points 65`,
		Args: idAnd(checkout.PrefixMerchant, listsMerchants, "the plan"),
		RunE: c.operator(func(args []string) (accountAction, error) {
			plan, err := choosePlan(args[1], fee, command.Flags().Changed(feeFlag))
			return func(ctx context.Context, c console) error { return c.setPlan(ctx, args[0], plan) }, err
		}),
	}
	command.Flags().Int64Var(&fee, feeFlag, 0, "the `fee` of a plan that is not known")
	return command
}

// choosePlan returns the plan with this name. An unknown plan needs a fee in basis points.
func choosePlan(name string, fee int64, hasFee bool) (checkout.Plan, error) {
	if err := checkWords("plan", name); err != nil {
		return checkout.Plan{}, err
	}
	i := slices.IndexFunc(checkout.Plans, func(p checkout.Plan) bool { return p.Name == name })
	switch {
	case i >= 0 && hasFee && fee != checkout.Plans[i].FeeBasisPoints:
		return checkout.Plan{}, fmt.Errorf("the fee of %s is %d basis points; another fee needs another name",
			name, checkout.Plans[i].FeeBasisPoints)
	case i >= 0:
		return checkout.Plans[i], nil
	case !hasFee || fee < 0 || fee > maxFee:
		return checkout.Plan{}, fmt.Errorf("%q needs --fee-basis-points from 0 to %d; known plans are %s",
			name, maxFee, knownPlans())
	}
	return checkout.Plan{Name: name, FeeBasisPoints: fee}, nil
}

// setPlan changes a merchant's plan. The merchant.updated events are stored in the same
// transaction; Reconcile sends them.
func (c console) setPlan(ctx context.Context, merchantID string, plan checkout.Plan) error {
	events, err := c.ChangeMerchant(ctx, storage.MerchantChange{
		MerchantID: merchantID, Plan: &plan, By: operatorsEntry(merchantID, nil, "merchant.changed", merchantID, ""),
	})
	if errors.Is(err, checkout.ErrNotFound) {
		return fmt.Errorf("there is no merchant %s", merchantID)
	}
	if err != nil {
		return err
	}
	said := fmt.Sprintf(
		"%s has the plan %s: %s of each payment", merchantID, plan.Name,
		checkout.FeePercent(plan.FeeBasisPoints),
	)
	if len(events) == 0 {
		said += ", as before"
	} else {
		said += "; its webhooks are told (merchant.updated)"
	}
	_, err = fmt.Fprintln(c.out, said)
	return err
}
