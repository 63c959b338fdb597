package invariant

import (
	"slices"

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
