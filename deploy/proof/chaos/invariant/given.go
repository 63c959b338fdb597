package invariant

import "example.com/checkout/workflows/checkout"

func (w *world) given(r *Result) {
	paid, back := w.paid(), map[string]bool{}
	for _, c := range w.Live.Charges {
		back[c.TransactionID] = back[c.TransactionID] || c.Paid && c.Refunded == c.Amount
	}
	for _, p := range w.Payouts {
		if !p.Mode.Live() {
			continue
		}
		r.Checked++
		paid := paid[p.ID] > 0 || p.Status == checkout.PayoutSent // 24 compares the two
		switch {
		case p.GivenBack && !back[p.TransactionID]:
			r.violated(p.SessionID, "was given back, and the card network does not know it")
		case paid && back[p.TransactionID]:
			r.violated(p.SessionID, "was paid out by %s and given back", p.ID)
		case !paid && !back[p.TransactionID]:
			r.violated(p.SessionID, "was neither paid out, %s is %s, nor given back", p.ID, p.Status)
		}
	}
}

// givenBack reports whether the payment of a session went back to the customer instead of to its merchant.
func (w *world) givenBack(sessionID string) bool {
	for _, p := range w.Payouts {
		if p.SessionID == sessionID {
			return p.GivenBack && p.Status == checkout.PayoutFailed
		}
	}
	return false
}
