package invariant

import (
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

var payouts = Invariant{
	Number: 17, Names: "session or payout",
	Title: "a completed session has one payout, which is sent once or fails, and says so once in each generation",
	check: func(w *world, r *Result) {
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
			// Each earlier generation failed. A live payout may fail after it was sent.
			earlier := p.Generation - 1
			sentToo := sent == 0 || (p.Mode.Live() && sent <= failed)
			switch {
			case p.Status == checkout.PayoutPending && failed == earlier && sentToo:
			case p.Status == checkout.PayoutSent && sent >= 1 && sent <= p.Generation && failed == earlier && p.Transfers == 1:
			case p.Status == checkout.PayoutFailed && failed == p.Generation && sentToo && p.Transfers == 0:
			default:
				r.violated(
					p.ID, "is %s with %d transfers, %d payout.sent and %d payout.failed", p.Status,
					p.Transfers, sent, failed,
				)
			}
		}
		for _, s := range w.Sessions {
			if n := of[s.ID]; (n == 1) != (s.Status == checkout.StatusCompleted) || n > 1 {
				r.violated(s.ID, "is %s and has %d payouts", s.Status, n)
			}
		}
	},
}
