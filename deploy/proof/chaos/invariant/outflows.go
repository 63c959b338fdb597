package invariant

import "example.com/checkout/storage"

var outflows = Invariant{
	Number: 25, Names: "transaction or transfer",
	Title: "every transaction of the treasury belongs to a transfer, any other froze the account, and each transfer says what the chain says",
	needs: needsLive,
	check: func(w *world, r *Result) {
		transferOf, mined, frozen := map[string]string{}, map[string]string{}, map[string]bool{}
		for _, t := range w.Transfers {
			for _, hash := range t.Versions {
				transferOf[hash] = t.ID
			}
		}
		for _, theft := range w.Live.Thefts {
			frozen[theft.TxHash] = theft.Froze != ""
		}
		for i, tx := range w.Live.Sent {
			r.Checked++
			if tx.Nonce != uint64(i) {
				r.violated(tx.TxHash, "has the nonce %d and is number %d", tx.Nonce, i)
			}
			if id := transferOf[tx.TxHash]; id != "" {
				mined[id] = tx.TxHash
			} else if _, lost := w.lost(tx.TxHash); !lost && !frozen[tx.TxHash] {
				r.violated(tx.TxHash, "belongs to no transfer, and froze nothing")
			}
		}
		if n := len(w.Live.Sent); uint64(n) != w.Live.Nonce {
			r.violated("treasury", "has the nonce %d and %d transactions", w.Live.Nonce, n)
		}
		for _, t := range w.Transfers {
			r.Checked++
			onChain := t.Status == storage.TransferConfirmed || t.Status == storage.TransferReverted
			if hash := mined[t.ID]; onChain != (hash != "") || t.TxHash != hash {
				r.violated(t.ID, "is %s by %q, and the chain has %q", t.Status, t.TxHash, hash)
			}
		}
	},
}
