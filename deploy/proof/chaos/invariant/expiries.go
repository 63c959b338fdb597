package invariant

import (
	"time"

	"example.com/checkout/workflows/checkout"
)

func (w *world) expiries(r *Result) {
	for _, s := range w.Sessions {
		r.Checked++
		for _, t := range w.transactionsOf[s.ID] {
			switch {
			case t.Status != checkout.TransactionSucceeded:
			case s.Status == checkout.StatusExpired:
				r.violated(s.ID, "is expired, and %s succeeded", t.ID)
			case !t.CreatedAt.Before(s.ExpiresAt):
				r.violated(
					s.ID, "was paid by %s, which began %s after its time", t.ID,
					t.CreatedAt.Sub(s.ExpiresAt).Round(time.Millisecond),
				)
			}
		}
		if s.Status != checkout.StatusExpired || s.EndedAt == nil {
			continue
		}
		early := s.EndedAt.Before(s.ExpiresAt.Add(-clockSkew))
		if early && w.Called && !w.operated(s.ID, OpExpire, OpAdvance, OpSignal, OpCancel) {
			r.violated(
				s.ID, "expired %s before its time, and nobody wished it",
				s.ExpiresAt.Sub(*s.EndedAt).Round(time.Millisecond),
			)
		}
	}
}
