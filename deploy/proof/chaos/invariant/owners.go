package invariant

import "example.com/checkout/workflows/checkout"

func (w *world) owners(r *Result) {
	same := func(id, sessionID, merchantID string, mode checkout.Mode) {
		r.Checked++
		if s := w.sessions[sessionID]; s == nil || s.MerchantID != merchantID || s.Mode != mode {
			r.violated(id, "is of %s in %s mode, and its session %s is not", merchantID, mode, sessionID)
		}
	}
	for _, t := range w.Transactions {
		same(t.ID, t.SessionID, t.MerchantID, t.Mode)
	}
	for _, p := range w.Payouts {
		same(p.ID, p.SessionID, p.MerchantID, p.Mode)
	}
	for _, e := range w.Events {
		if e.SessionID != "" {
			same(e.ID, e.SessionID, e.MerchantID, e.Mode)
		}
	}
}
