package invariant

import (
	"cmp"
	"math/big"
	"strings"
)

func (w *world) ledger(r *Result) {
	for _, words := range w.Unbalanced {
		r.violated("ledger", "is out of balance: %s", words)
	}
	expected, gross := map[string]*big.Int{}, map[string]*big.Int{}
	for c, units := range w.Live.Treasury {
		expected["wallet "+string(c)] = units
	}
	for _, c := range w.Live.Charges {
		if !c.Paid || w.unasked(c.TransactionID) {
			continue
		}
		account := "acquirer:receivable " + strings.ToUpper(c.Currency)
		if expected[account] == nil {
			expected[account], gross[account] = new(big.Int), new(big.Int)
		}
		gross[account].Add(gross[account], big.NewInt(c.Amount))
		expected[account].Add(expected[account], big.NewInt(c.Amount-c.Refunded))
	}

	// A charge is settled at most once: never more than was charged.
	for _, b := range w.Ledger {
		currency, ok := strings.CutPrefix(b.Account+" "+b.Asset, "acquirer:receivable settled ")
		settled, _ := new(big.Int).SetString(b.Amount, 10)
		charged := gross["acquirer:receivable "+currency]
		if ok && (settled == nil || charged == nil || settled.CmpAbs(charged) > 0 || settled.Sign() > 0) {
			r.violated("acquirer:receivable "+currency, "has %s settled", b.Amount)
		}
	}

	booked := map[string]string{}
	for _, b := range w.Ledger {
		booked[b.Account+" "+b.Asset] = b.Amount
		// At rest nothing is on its way.
		if r.Checked++; b.Account == "transit" && b.Amount != "0" {
			r.violated("transit "+b.Asset, "is %s, and nothing is on its way", b.Amount)
		}
	}
	for account, want := range expected {
		r.Checked++
		if got := cmp.Or(booked[account], "0"); got != want.String() {
			r.violated(account, "is %s, and outside it is %s", got, want)
		}
	}
}
