package invariant

import "example.com/checkout/workflows/checkout"

func (w *world) charges(r *Result) {
	charged := map[string]int{}
	for _, c := range w.Charges {
		r.Checked++
		if c.Outcome != checkout.OutcomeSucceeded {
			continue
		}
		if !w.unasked(c.TransactionID) {
			charged[c.SessionID]++
		}
		t, known := w.transactions[c.TransactionID]
		s := w.sessions[c.SessionID]
		switch {
		case w.unasked(c.TransactionID) && w.lostPaid(c.TransactionID):
			// A restore has taken the payment, and the merchant has the money.
		case !known:
			r.violated(c.TransactionID, "was charged and is no transaction")
		case s == nil:
			r.violated(c.TransactionID, "was charged for %s, which is not there", c.SessionID)
		case s.Moved || (s.InFlight && t.Status == checkout.TransactionProcessing):
			// The payment is being decided.
		case s.Status != checkout.StatusCompleted || t.Status != checkout.TransactionSucceeded:
			r.violated(c.SessionID, "was charged for %s (%s) and is %s", c.TransactionID, t.Status, s.Status)
		}
	}
	for _, s := range w.Sessions {
		judged := !s.Mode.Live() || w.Live != nil // only the double says what a live session was charged
		if n := charged[s.ID]; n > 1 || (n == 0 && s.Status == checkout.StatusCompleted && judged && !w.givenBack(s.ID)) {
			r.violated(s.ID, "is %s and was charged %d times", s.Status, n)
		}
	}
}
