package invariant

import (
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

var payouts = Invariant{
	Number: 17, Names: "session or payout",
	Title: "a completed session has one payout, which is sent once or fails, and says so once",
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
			switch {
			case p.Status == checkout.PayoutPending && sent+failed == 0:
			case p.Status == checkout.PayoutSent && sent == 1 && failed == 0 && (p.Transfers == 1 || p.Mode.Live()):
			case p.Status == checkout.PayoutFailed && sent == 0 && failed == 1 && p.Transfers == 0:
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
