package invariant

import (
	"cmp"
	"math/big"
	"slices"
	"strings"

	"example.com/checkout/workflows/treasury"
)

func (w *world) outflows(r *Result) {
	mined, frozen := map[string]string{}, map[string]bool{}
	for _, theft := range w.Live.Thefts {
		frozen[theft.TxHash] = theft.Froze != ""
	}
	nonce := uint64(0)
	for _, tx := range w.Live.Sent {
		r.Checked++
		if n, ordered := tx.Slot.Number(); ordered {
			if n != nonce {
				r.violated(tx.TxHash, "has the nonce %d and is number %d", n, nonce)
			}
			nonce++
		}
		t, ours := w.transferOf[tx.TxHash]
		switch {
		case ours:
			mined[t.ID] = tx.TxHash
			r.judgeSlot(t, tx)
		case len(w.lost(tx.TxHash)) == 0 && !frozen[tx.TxHash]:
			r.violated(tx.TxHash, "belongs to no transfer, and froze nothing")
		}
	}
	if nonce != w.Live.Nonce {
		r.violated("treasury", "has the nonce %d and %d transactions", w.Live.Nonce, nonce)
	}
	for _, t := range w.Transfers {
		r.Checked++
		onChain := t.Status == treasury.TransferStateConfirmed || t.Status == treasury.TransferStateReverted
		if hash := mined[t.ID]; onChain != (hash != "") || t.TxHash != hash {
			r.violated(t.ID, "is %s by %q, and the chain has %q", t.Status, t.TxHash, hash)
		}
	}
}

// judgeSlot compares what a transaction uses up with its transfer.
func (r *Result) judgeSlot(t Transfer, tx SentTransaction) {
	want, used := slices.Sorted(slices.Values(t.Slot)), slices.Sorted(slices.Values(tx.Slot))
	if !slices.Equal(want, used) {
		r.violated(t.ID, "has the %s, and its transaction used the %s", t.Slot.Name(), tx.Slot.Name())
	}
	if tx.Hasty {
		r.violated(t.ID, "spent a coin that was not final")
	}
}

func (w *world) freezes(r *Result) {
	for _, why := range w.Live.Frozen {
		r.Checked++
		explained := why == OperatorsFreeze
		for _, theft := range w.Live.Thefts {
			explained = explained || theft.Froze == why
		}
		// What is signed stays in the world when a restore takes its row. It may be mined after the recovery.
		explained = explained || len(w.Live.Lost) > 0 && strings.HasPrefix(why, "a transaction uses slot")
		for _, p := range w.Live.Known {
			explained = explained || slices.ContainsFunc(p.Hashes, func(hash string) bool {
				return len(w.lost(hash)) > 0 && strings.Contains(why, hash)
			})
		}
		if !explained {
			r.violated("treasury", "was frozen: %s", why)
		}
	}
}

func (w *world) ledger(r *Result) {
	for _, words := range w.Unbalanced {
		r.violated("ledger", "is out of balance: %s", words)
	}
	expected, gross := sums{}, sums{}
	for c, units := range w.Live.Treasury {
		expected["wallet "+string(c)] = units
	}
	for _, c := range w.Live.Charges {
		if !c.Paid || w.unasked(c.TransactionID) {
			continue
		}
		account := "acquirer:receivable " + strings.ToUpper(c.Currency)
		gross.add(account, big.NewInt(c.Amount))
		expected.add(account, big.NewInt(c.Amount-c.Refunded-c.Held))
	}

	// A charge is settled at most once: never more than was charged.
	for _, b := range w.Ledger {
		currency, ok := strings.CutPrefix(b.Account+" "+b.Asset, "acquirer:receivable settled ")
		settled, _ := new(big.Int).SetString(b.Amount, 10)
		charged := gross.of("acquirer:receivable " + currency)
		if ok && (settled == nil || settled.CmpAbs(charged) > 0 || settled.Sign() > 0) {
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
