package app

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"example.com/checkout/api/action"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/money"
)

func (c *call) merchantStopAddressCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "stop-address mer_… CURRENCY",
		Short: "Stop a change of a live payout address that is not in effect yet",
		Long: `Stops a scheduled change of a live payout address: payouts continue to the present address. An owner can do the
same in the dashboard. Use this when a thief has an owner's access and no other owner is left. checkout merchant
show lists the scheduled changes. The audit log gets an entry, and every owner gets an e-mail.`,
		Example: "  checkout merchant stop-address mer_06gzx1s5q8v2m9kd3yet7b4wnc USDC",
		Args:    idAnd(checkout.PrefixMerchant, listsMerchants, "the currency"),
		PreRunE: func(_ *cobra.Command, args []string) error {
			if !money.PayoutCurrency(args[1]).Valid() {
				return fmt.Errorf("%q is not a payout currency; use one of %s", args[1], payoutNetworks())
			}
			return nil
		},
		RunE: c.operator(func(ctx context.Context, c console, args []string) error {
			return c.stopAddress(ctx, args[0], money.PayoutCurrency(args[1]))
		}),
	}
}

func (c console) stopAddress(ctx context.Context, merchantID string, currency money.PayoutCurrency) error {
	live := checkout.Owner{MerchantID: merchantID, Mode: checkout.ModeLive}
	all, err := c.Merchants.AddressChanges(ctx, live)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(all, func(a merchant.AddressChange) bool { return a.Currency == currency })
	if at < 0 {
		return fmt.Errorf("no change of the %s address of %s is scheduled", currency, merchantID)
	}
	to := all[at].PayoutAddress
	err = action.StopAddressChange(ctx, c.Accounts.Merchants, live, to, action.Operator)
	target := cmp.Or(to.Address, "no address")
	err = explained(err, checkout.ErrNotFound,
		"the change to %s has ended or was replaced meanwhile; see checkout merchant show %s", target, merchantID)
	return c.said(err, "the change to %s is stopped; payouts in %s continue to the present address\n", target, currency)
}
