package app

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
)

// knownPlans are the plans with their fees.
func knownPlans() string {
	var plans []string
	for _, p := range checkout.Plans {
		plans = append(plans, fmt.Sprintf("%s (%d)", p.Name, p.FeeBasisPoints))
	}
	return strings.Join(plans, " or ")
}

const maxFee = 10000 // basis points: all of the amount

func parseMerchantPlan(args []string) (accountAction, error) {
	const unset = -1
	flags := flag.NewFlagSet("merchant plan", flag.ContinueOnError)
	fee := flags.Int64("fee-basis-points", unset, "")
	words, err := parseWords(flags, args, checkout.PrefixMerchant+"_…", "the plan")
	if err != nil {
		return nil, err
	}
	if !checkout.IsID(checkout.PrefixMerchant, words[0]) {
		return nil, errors.New("that is no id of a merchant; checkout merchant list shows them")
	}
	plan := checkout.Plan{Name: words[1], FeeBasisPoints: *fee}
	if err := checkWords("plan", plan.Name); err != nil {
		return nil, err
	}
	i := slices.IndexFunc(checkout.Plans, func(p checkout.Plan) bool { return p.Name == plan.Name })
	switch {
	case i >= 0 && (*fee == unset || *fee == checkout.Plans[i].FeeBasisPoints):
		plan = checkout.Plans[i]
	case i >= 0:
		return nil, fmt.Errorf("the fee of %s is %d basis points; another fee needs another name", plan.Name, checkout.Plans[i].FeeBasisPoints)
	case *fee < 0 || *fee > maxFee:
		return nil, fmt.Errorf("%q needs --fee-basis-points from 0 to %d; known plans are %s", plan.Name, maxFee, knownPlans())
	}
	return func(ctx context.Context, c console) error { return c.setPlan(ctx, words[0], plan) }, nil
}

// setPlan changes what a merchant pays. The merchant.updated events are stored
// with it; Reconcile sends them.
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
	said := fmt.Sprintf("%s has the plan %s: %s of each payment", merchantID, plan.Name, checkout.FeePercent(plan.FeeBasisPoints))
	if len(events) == 0 {
		said += ", as before"
	} else {
		said += "; its webhooks are told (merchant.updated)"
	}
	_, err = fmt.Fprintln(c.out, said)
	return err
}
