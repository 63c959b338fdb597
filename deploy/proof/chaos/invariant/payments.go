package invariant

import (
	"strings"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

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
		if n := charged[s.ID]; n > 1 || (n == 0 && s.Status == checkout.StatusCompleted && judged) {
			r.violated(s.ID, "is %s and was charged %d times", s.Status, n)
		}
	}
}

func (w *world) liveCharges(r *Result) {
	back := map[string]int64{} // of each transaction, as the rows say
	for _, refund := range w.Refunds {
		back[refund.TransactionID] += refund.Amount
	}
	for _, c := range w.Live.Charges {
		r.Checked++
		s := w.sessions[w.transactions[c.TransactionID].SessionID]
		if s == nil || !c.Paid {
			continue // 5 judges a charge of no session
		}
		if c.Amount != s.Amount || !strings.EqualFold(c.Currency, string(s.Currency)) {
			r.violated(s.ID, "costs %d %s and was charged %d %s", s.Amount, s.Currency, c.Amount, c.Currency)
		}
		if c.Refunded != back[c.TransactionID] {
			r.violated(s.ID, "has refunds of %d, and %d of its charge %s went back", back[c.TransactionID], c.Refunded, c.ID)
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

func (w *world) eventsOnce(r *Result) {
	completed, told := map[string]int{}, map[string]int{}
	for _, e := range w.Events {
		told[string(e.Type)+" "+e.SubjectID]++
		if e.Type != webhook.CheckoutCompleted || e.SessionID == "" {
			continue
		}
		completed[e.SessionID]++
		if s := w.sessions[e.SessionID]; s == nil {
			r.violated(e.ID, "is of session %s, which is not there", e.SessionID)
		} else if s.Status != checkout.StatusCompleted {
			r.violated(s.ID, "is %s and has the event %s", s.Status, e.ID)
		}
	}
	for _, s := range w.Sessions {
		if s.EndedAt != nil && s.EndedAt.Before(w.At.Add(-w.DeliveryRetention)) {
			continue // its events may be gone
		}
		r.Checked++
		if n := completed[s.ID]; s.Status == checkout.StatusCompleted && n != 1 {
			r.violated(s.ID, "is completed and has %d events checkout.completed", n)
		}
		for _, t := range w.transactionsOf[s.ID] {
			if n := told[string(webhook.CheckoutFailed)+" "+t.ID]; t.Status == checkout.TransactionFailed && n != 1 {
				r.violated(t.ID, "failed and has %d events checkout.failed", n)
			}
		}
	}
}
