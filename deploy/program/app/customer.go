package app

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
)

func (c *call) customerCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "customer",
		Short: "Erase the data of a customer",
		Long:  `Customers have no account here. Their data is in the sessions that they paid.`,
	}
	command.AddCommand(c.customerEraseCommand())
	return command
}

func (c *call) customerEraseCommand() *cobra.Command {
	var (
		email, merchant string
		apply           bool
	)
	command := &cobra.Command{
		Use:   "erase --email address",
		Short: "Erase a customer's e-mail address, card and metadata",
		Long: `Erases what tells who a customer is: the e-mail address, the card's last four digits and expiry, the
merchant's metadata but for the order id, the same in events and stored answers, and what receivers
answered. Amounts, ids, times and states stay: they are the books. An erased event that is replayed
has no customer.

Without --apply it only says what it would change. A session that is not over, a payout on its way or
a delivery that is not delivered is listed with the time when it can be erased; then run it again. A
repeat changes nothing. Each erased session gets an entry in the audit log, without the address. What
the card network stores about the customer must be erased there.`,
		Example: `  checkout customer erase --email ann@example.com
  checkout customer erase --email ann@example.com --merchant mer_06gzx1s5q8v2m9kd3yet7b4wnc --apply`,
		Args: words(),
		RunE: func(command *cobra.Command, args []string) error {
			if err := checkEmail("email", email); err != nil {
				return err
			}
			if command.Flags().Changed("merchant") && !checkout.IsID(checkout.PrefixMerchant, merchant) {
				return fmt.Errorf("--merchant: that is no id: one is mer_ and 26 characters, as %s shows it", listsMerchants)
			}
			return c.configured(ends, func([]string) serviceAction {
				return c.withStore(func(ctx context.Context, store *storage.Store) error {
					return c.eraseCustomer(ctx, store, email, merchant, apply)
				})
			})(command, args)
		},
	}
	command.Flags().StringVar(&email, "email", "", "the customer's e-mail `address`")
	command.Flags().StringVar(&merchant, "merchant", "", "only the sessions of this merchant: `mer_…` (default all)")
	command.Flags().BoolVar(&apply, "apply", false, "erase; without it nothing changes")
	return command
}

func (c *call) eraseCustomer(ctx context.Context, store *storage.Store, email, merchantID string, apply bool) error {
	merchants := []checkout.Merchant{{ID: merchantID}}
	if merchantID == "" {
		var err error
		if merchants, err = store.Merchants(ctx); err != nil {
			return err
		}
	}
	total := storage.Erasure{Rows: map[string]int{}}
	for _, m := range merchants {
		done, err := store.EraseCustomer(ctx, m.ID, email, apply, func(session checkout.Ref) checkout.AuditEntry {
			return operatorsEntry(session.MerchantID, &session.Mode, "customer.erased", session.ID,
				"e-mail address, card and metadata")
		})
		if err != nil {
			return fmt.Errorf("%s: %w", m.ID, err)
		}
		total.Sessions = append(total.Sessions, done.Sessions...)
		total.Open = append(total.Open, done.Open...)
		total.Members = append(total.Members, done.Members...)
		for table, n := range done.Rows {
			total.Rows[table] += n
		}
	}
	return c.showErasure(total, apply)
}

func (c *call) showErasure(e storage.Erasure, apply bool) error {
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
		when := "when it is over"
		if open.Until != nil {
			when = "from " + showTime(open.Until)
		}
		fmt.Fprintf(c.out, "not yet: %s %s, %s of %s: %s\n", open.ID, open.Why, open.Mode, open.MerchantID, when)
	}
	for _, id := range e.Members {
		fmt.Fprintf(c.out, "%s is one of the merchant's people, no customer: the dashboard removes members\n", id)
	}
	return nil
}
