package invariant

import (
	"math/big"

	"example.com/checkout/workflows/checkout"
)

var livePayouts = Invariant{
	Number: 24, Names: "payout or address",
	Title: "a live payout that was sent is one transaction on the chain, no other is any, and each address has the sum of its payouts",
	needs: needsLive,
	check: func(w *world, r *Result) {
		payoutOf, paid := map[string]string{}, map[string]int{}
		for _, t := range w.Transfers {
			for _, hash := range t.Versions {
				payoutOf[hash] = t.PayoutID
			}
		}
		for _, tx := range w.Live.Sent {
			paid[payoutOf[tx.TxHash]]++
		}

		expected := map[string]map[checkout.PayoutCurrency]*big.Int{}
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
		for address, has := range w.Live.Balances {
			for _, c := range liveCurrencies {
				r.Checked++
				want := expected[address][c]
				if want == nil {
					want = new(big.Int)
				}
				if has[c].Cmp(want) != 0 {
					r.violated(address, "has %s of the smallest unit of %s, and its payouts are %s", has[c], c, want)
				}
			}
		}
	},
}

// expect adds a payout to what its destination must have.
func (w *world) expect(r *Result, sums map[string]map[checkout.PayoutCurrency]*big.Int, p Payout) {
	units, err := p.Currency.Units(p.Amount)
	if err != nil {
		r.violated(p.ID, "is sent with the amount %q", p.Amount)
		return
	}
	if sums[p.Destination] == nil {
		sums[p.Destination] = map[checkout.PayoutCurrency]*big.Int{}
	}
	if sums[p.Destination][p.Currency] == nil {
		sums[p.Destination][p.Currency] = new(big.Int)
	}
	sums[p.Destination][p.Currency].Add(sums[p.Destination][p.Currency], units)
}
