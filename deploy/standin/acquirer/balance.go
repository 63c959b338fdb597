package acquirer

import (
	"context"
	"time"
)

// settlesAfter is how long the money of a charge is pending, as Stripe's is by default in the USA.
const settlesAfter = 2 * 24 * time.Hour

// settle books a charge that succeeded. It costs 2.9 % and 0.30.
func (d desk) settle(ch object) error {
	ch["balance_transaction"] = nil
	if ch.text("status") != succeeded {
		return nil
	}
	amount := ch.number("amount")
	b, err := d.book(ch, kindCharge, amount, (amount*29+500)/1000+30)
	ch["balance_transaction"] = b.text("id")
	return err
}

// book changes the balance of the account by amount, less a fee. source is what moved the money, and kind is the
// reporting category of the balance transaction.
func (d desk) book(source object, kind string, amount, fee int64) (object, error) {
	b, err := d.newObject("/v1/balance_transactions/", "txn_")
	if err != nil {
		return nil, err
	}
	delete(b, "livemode") // which this kind does not have
	b["type"], b["reporting_category"], b["status"] = typeOf(kind), kind, "pending"
	b["source"], b["currency"], b["exchange_rate"] = source.text("id"), source.text("currency"), nil
	b["amount"], b["fee"], b["net"] = amount, fee, amount-fee
	b["available_on"], b["fee_details"] = time.Now().Add(settlesAfter).Unix(), []any{}
	if fee != 0 {
		b["fee_details"] = []any{object{
			"amount": fee, "currency": source.text("currency"), "type": "stripe_fee",
			"description": "Stripe processing fees", "application": nil,
		}}
	}
	return b, d.insert(b, source.text("payment_intent"), "")
}

// Move changes the balance of the account by an amount in minor units, for one of Stripe's reporting categories.
func (a *Acquirer) Move(ctx context.Context, category, currency string, amount int64) error {
	return a.act(ctx, request{}, func(d desk) error {
		_, err := d.book(object{"currency": currency}, category, amount, 0)
		return err
	})
}

// typeOf returns the type of balance transactions of a reporting category.
func typeOf(category string) string {
	switch category {
	case "dispute", "dispute_reversal":
		return "adjustment"
	case "fee":
		return "stripe_fee"
	}
	return category
}
