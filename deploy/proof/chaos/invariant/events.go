package invariant

import (
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

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
