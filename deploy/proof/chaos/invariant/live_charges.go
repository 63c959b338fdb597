package invariant

import (
	"strings"

	"example.com/checkout/workflows/checkout"
)

func (w *world) liveCharges(r *Result) {
	for _, c := range w.Live.Charges {
		r.Checked++
		s := w.sessions[w.transactions[c.TransactionID].SessionID]
		if s == nil || !c.Paid {
			continue // 5 judges a charge of no session
		}
		if c.Amount != s.Amount || !strings.EqualFold(c.Currency, string(s.Currency)) {
			r.violated(s.ID, "costs %d %s and was charged %d %s", s.Amount, s.Currency, c.Amount, c.Currency)
		}
		whole := c.Refunded == c.Amount && w.givenBack(s.ID)
		if c.Refunded != 0 && s.Status == checkout.StatusCompleted && !whole {
			r.violated(s.ID, "is completed, and %d of its charge %s went back", c.Refunded, c.ID)
		}
	}
	for _, i := range w.Live.Intents {
		r.Checked++
		t, known := w.transactions[i.TransactionID]
		s := w.sessions[t.SessionID]
		open := i.Status == "requires_action" || i.Status == "requires_confirmation" || i.Status == "processing"
		if open && !w.unasked(i.TransactionID) && (!known || s == nil || s.Status.Final()) {
			r.violated(i.ID, "is %s for %s, whose session has ended", i.Status, i.TransactionID)
		}
	}
}
