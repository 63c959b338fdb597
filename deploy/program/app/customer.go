package app

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/pflag"

	"example.com/checkout/api/action"
	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
)

var customerCommand = command{
	use:   "customer",
	short: "Erase the data of a customer",
	long:  `Customers have no account. Their data is in the sessions that they paid.`,
	children: []command{{
		use:   "erase --email address",
		short: "Erase a customer's e-mail address, card and metadata",
		long: `Erases a customer's personal data: the e-mail address, the card's last four digits and expiry, the
merchant's metadata except the order id, the same in events and stored answers, and the receivers'
answers. Amounts, ids, times and states stay: they are the books. A replay of an erased event has no
customer.

Without --apply it is a dry run. Open sessions, pending payouts and undelivered events are listed with
the time when they can be erased; run it again then. The command is idempotent. When a merchant's data
cannot be erased, it goes on with the other merchants, says so at the end and fails. Each erased session
gets an entry in the audit log, without the address. Erase the customer's data at the card network
separately.`,
		example: `  checkout customer erase --email ann@example.com
  checkout customer erase --email ann@example.com --merchant mer_06gzx1s5q8v2m9kd3yet7b4wnc --apply`,
		args: words(),
		flags: func(f *pflag.FlagSet) {
			f.String("email", "", "the customer's e-mail `address`")
			f.String("merchant", "", "only the sessions of this merchant: `mer_…` (default all)")
			f.Bool("apply", false, "erase; without it this is a dry run")
		},
		check: (*call).checkErasure,
		run:   withStore(storeCall.eraseCustomer),
	}},
}

func (c *call) checkErasure() error {
	if err := c.checkEmail("email"); err != nil {
		return err
	}
	if c.flags.Changed("merchant") {
		if err := checkID(checkout.PrefixMerchant, listsMerchants, c.text("merchant")); err != nil {
			return fmt.Errorf("--merchant: %w", err)
		}
	}
	return nil
}

// eraseCustomer also shows what was erased before an error.
func (c storeCall) eraseCustomer(ctx context.Context) (result, error) {
	apply := c.isSet("apply")
	done, err := action.Actions{Store: action.StoreOf(c.Store)}.EraseCustomer(
		ctx, c.text("merchant"), c.text("email"), apply, action.Operator)
	return erasure(done, apply), err
}

func erasure(e storage.Erasure, applied bool) (lines result) {
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	what := "sessions that --apply would erase"
	if applied {
		what = "sessions erased"
	}
	add("%s: %d", what, len(e.Sessions))
	for _, table := range slices.Sorted(maps.Keys(e.Rows)) {
		if e.Rows[table] > 0 {
			add("  rows of %s: %d", table, e.Rows[table])
		}
	}
	for _, open := range e.Open {
		when := "when it has ended"
		if open.Until != nil {
			when = "from " + showTime(open.Until)
		}
		add("not yet: %s %s, %s of %s: %s", open.ID, open.Why, open.Mode, open.MerchantID, when)
	}
	for _, id := range e.Members {
		add("%s is a member of the merchant, not a customer: remove members in the dashboard", id)
	}
	return lines
}
