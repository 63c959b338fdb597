package invariant

import (
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

func (w *world) payouts(r *Result) {
	of, told := map[string]int{}, map[string]int{}
	for _, e := range w.Events {
		if e.SessionID != "" {
			told[string(e.Type)+" "+e.SubjectID]++
		}
	}
	for _, p := range w.Payouts {
		r.Checked++
		of[p.SessionID]++
		sent, failed := told[string(webhook.PayoutSent)+" "+p.ID], told[string(webhook.PayoutFailed)+" "+p.ID]
		if !p.fits(sent, failed) {
			r.violated(
				p.ID, "is %s in generation %d with %d transfers, %d payout.sent and %d payout.failed", p.Status,
				p.Generation, p.Transfers, sent, failed,
			)
		}
	}
	for _, s := range w.Sessions {
		if n := of[s.ID]; (n == 1) != (s.Status == checkout.StatusCompleted) || n > 1 {
			r.violated(s.ID, "is %s and has %d payouts", s.Status, n)
		}
	}
}

// fits reports whether the payout's events and transfers fit its state. Each generation before the
// present one failed, and in live mode it may have been sent first: its transfer paid nothing.
func (p Payout) fits(sent, failed int) bool {
	failures, transfers := p.Generation-1, 0
	switch p.Status {
	case checkout.PayoutSent:
		sent, transfers = sent-1, 1
	case checkout.PayoutFailed:
		failures++
	}
	sentBefore := 0
	if p.Mode.Live() {
		sentBefore = failures
	}
	pending := p.Status == checkout.PayoutPending // its transfer may be on the chain already
	return failed == failures && sent >= 0 && sent <= sentBefore && (p.Transfers == transfers || pending)
}
