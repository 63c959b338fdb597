package invariant

import (
	"cmp"
	"math/big"
	"slices"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
)

func (w *world) livePayouts(r *Result) {
	paid := w.paid()
	expected := map[string]map[money.PayoutCurrency]*big.Int{}
	for _, p := range w.Payouts {
		if !p.Mode.Live() {
			continue
		}
		r.Checked++
		want := 0
		if p.Status == checkout.PayoutSent {
			want = 1
			w.expect(r, expected, p)
		}
		if paid[p.ID] != want {
			r.violated(p.ID, "is %s and was paid %d times on the chain", p.Status, paid[p.ID])
		}
	}
	for _, tx := range w.Live.Sent {
		for _, p := range w.lost(tx.TxHash) {
			if !tx.Reverted && paid[p.ID] == 0 {
				paid[p.ID]++
				w.expect(r, expected, Payout{ID: p.ID, Destination: p.Destination, Currency: p.Currency, Amount: p.Amount})
			}
		}
	}
	for address, has := range w.Live.Balances {
		for c, units := range has {
			r.Checked++
			want := cmp.Or(expected[address][c], new(big.Int))
			if units.Cmp(want) != 0 {
				r.violated(address, "has %s of the smallest unit of %s, and its payouts are %s", units, c, want)
			}
		}
	}
}

// lostPaid reports whether a payment whose row is lost was paid out.
func (w *world) lostPaid(transactionID string) bool {
	return slices.ContainsFunc(w.Live.Sent, func(tx SentTransaction) bool {
		return !tx.Reverted && slices.ContainsFunc(w.lost(tx.TxHash), func(p LostPayout) bool {
			return p.TransactionID == transactionID
		})
	})
}

// paid returns how many transactions on the chain paid each payout.
func (w *world) paid() map[string]int {
	paid := map[string]int{}
	for _, tx := range w.Live.Sent {
		for _, id := range w.transferOf[tx.TxHash].Payouts {
			if !tx.Reverted {
				paid[id]++
			}
		}
	}
	return paid
}

// expect adds a payout to what its destination must have.
func (w *world) expect(r *Result, sums map[string]map[money.PayoutCurrency]*big.Int, p Payout) {
	amount, err := money.ParseCrypto(p.Amount, p.Currency)
	if err != nil {
		r.violated(p.ID, "is sent with the amount %q", p.Amount)
		return
	}
	if sums[p.Destination] == nil {
		sums[p.Destination] = map[money.PayoutCurrency]*big.Int{}
	}
	if sums[p.Destination][p.Currency] == nil {
		sums[p.Destination][p.Currency] = new(big.Int)
	}
	sums[p.Destination][p.Currency].Add(sums[p.Destination][p.Currency], amount.Units())
}
