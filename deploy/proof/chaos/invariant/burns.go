package invariant

func (w *world) burns(r *Result) {
	type try struct{ payoutID, to string }
	reverted := map[try]bool{}
	for _, tx := range w.Live.Sent {
		r.Checked++
		for _, id := range w.transferOf[tx.TxHash].Payouts {
			at := try{id, tx.To}
			if reverted[at] {
				r.violated(id, "was sent to %s again, by %s", tx.To, tx.TxHash)
			}
			reverted[at] = reverted[at] || tx.Reverted
		}
	}
}
