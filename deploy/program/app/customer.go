package app

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"example.com/checkout/api/action"
	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
)

func (c *call) customerCommand() *cobra.Command {
	return parentOf(&cobra.Command{
		Use:   "customer",
		Short: "Erase the data of a customer",
		Long:  `Customers have no account. Their data is in the sessions that they paid.`,
	}, c.customerEraseCommand())
}

func (c *call) customerEraseCommand() *cobra.Command {
	var (
		email, merchant string
		apply           bool
	)
	command := &cobra.Command{
		Use:   "erase --email address",
		Short: "Erase a customer's e-mail address, card and metadata",
		Long: `Erases a customer's personal data: the e-mail address, the card's last four digits and expiry, the
merchant's metadata except the order id, the same in events and stored answers, and the receivers'
answers. Amounts, ids, times and states stay: they are the books. A replay of an erased event has no
customer.

Without --apply it is a dry run. Open sessions, pending payouts and undelivered events are listed with
the time when they can be erased; run it again then. The command is idempotent. When a merchant's data
cannot be erased, it goes on with the other merchants, says so at the end and fails. Each erased session
gets an entry in the audit log, without the address. Erase the customer's data at the card network
separately.`,
		Example: `  checkout customer erase --email ann@example.com
  checkout customer erase --email ann@example.com --merchant mer_06gzx1s5q8v2m9kd3yet7b4wnc --apply`,
		Args: words(),
		RunE: func(command *cobra.Command, args []string) error {
			if err := checkEmail("email", email); err != nil {
				return err
			}
			if command.Flags().Changed("merchant") && !checkout.IsID(checkout.PrefixMerchant, merchant) {
				return fmt.Errorf("--merchant: not a valid id: expected mer_ and 26 characters, as shown by %s", listsMerchants)
			}
			return c.stored(func(ctx context.Context, store *storage.Store, _ string) error {
				done, err := action.Actions{Store: action.StoreOf(store)}.EraseCustomer(ctx, merchant, email, apply,
					action.Operator)
				c.showErasure(done, apply)
				return err
			})(command, args)
		},
	}
	command.Flags().StringVar(&email, "email", "", "the customer's e-mail `address`")
	command.Flags().StringVar(&merchant, "merchant", "", "only the sessions of this merchant: `mer_…` (default all)")
	command.Flags().BoolVar(&apply, "apply", false, "erase; without it this is a dry run")
	return command
}

func (c *call) showErasure(e storage.Erasure, apply bool) {
	what := "sessions that --apply would erase"
	if apply {
		what = "sessions erased"
	}
	fmt.Fprintf(c.out, "%s: %d\n", what, len(e.Sessions))
	for _, table := range slices.Sorted(maps.Keys(e.Rows)) {
		if e.Rows[table] > 0 {
			fmt.Fprintf(c.out, "  rows of %s: %d\n", table, e.Rows[table])
		}
	}
	for _, open := range e.Open {
		when := "when it has ended"
		if open.Until != nil {
			when = "from " + showTime(open.Until)
		}
		fmt.Fprintf(c.out, "not yet: %s %s, %s of %s: %s\n", open.ID, open.Why, open.Mode, open.MerchantID, when)
	}
	for _, id := range e.Members {
		fmt.Fprintf(c.out, "%s is a member of the merchant, not a customer: remove members in the dashboard\n", id)
	}
}
