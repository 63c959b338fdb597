package action

import (
	"context"
	"errors"
	"fmt"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
)

// EraseCustomer erases the customer with an e-mail address at one merchant, at every merchant with "". Without apply
// nothing changes, and the result says what would; see storage.Customers.EraseCustomer. An error of one merchant
// does not stop the others: the result has what was done at them.
func (a Actions) EraseCustomer(
	ctx context.Context, merchantID, email string, apply bool, by By,
) (storage.Erasure, error) {
	total := storage.Erasure{Rows: map[string]int{}}
	merchants := []merchant.Merchant{{ID: merchantID}}
	if merchantID == "" {
		var err error
		if merchants, err = a.Store.Merchants.Merchants(ctx); err != nil {
			return total, err
		}
	}
	entry := func(session checkout.Ref) merchant.AuditEntry {
		return by.Entry(session, "customer.erased", "e-mail address, card and metadata")
	}
	var failed error
	for _, m := range merchants {
		done, err := a.Store.Customers.EraseCustomer(ctx, m.ID, email, apply, entry)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", m.ID, err))
		}
		total.Sessions = append(total.Sessions, done.Sessions...)
		total.Open = append(total.Open, done.Open...)
		total.Members = append(total.Members, done.Members...)
		for table, n := range done.Rows {
			total.Rows[table] += n
		}
	}
	return total, failed
}
