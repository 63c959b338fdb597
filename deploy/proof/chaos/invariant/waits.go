package invariant

import (
	"slices"
	"time"

	"example.com/checkout/workflows/checkout"
)

// waitParts are compared when there are so many payouts on both sides. A fault may put all payouts of some
// seconds on hold, the shortest for a minute, so that a few in one tenth say little.
var waitParts = []struct {
	name   string
	tenths int
	fewest int
	slack  time.Duration
}{
	{"one half", 5, 10, 10 * time.Second},
	{"nine tenths", 9, 50, time.Minute},
}

var waits = Invariant{
	Number: 29, Names: "payouts", needs: needsLive,
	Title: "the payouts of honest merchants wait at most twice as long while an enemy acts",
	check: func(w *world, r *Result) {
		var calm, besieged []time.Duration
		for _, p := range w.Payouts {
			if !p.Mode.Live() || p.MerchantID == w.Live.Hostile || p.Status != checkout.PayoutSent || p.SentAt == nil ||
				slices.ContainsFunc(w.Live.Halts, func(s Span) bool { return s.meets(p.CreatedAt, *p.SentAt) }) {
				continue
			}
			r.Checked++
			waited := p.SentAt.Sub(p.CreatedAt)
			if slices.ContainsFunc(w.Live.Sieges, func(s Span) bool { return s.meets(p.CreatedAt, p.CreatedAt) }) {
				besieged = append(besieged, waited)
			} else {
				calm = append(calm, waited)
			}
		}
		slices.Sort(calm)
		slices.Sort(besieged)
		for _, part := range waitParts {
			if min(len(calm), len(besieged)) < part.fewest {
				continue
			}
			without, with := calm[len(calm)*part.tenths/10], besieged[len(besieged)*part.tenths/10]
			if with > 2*without+part.slack {
				r.violated(part.name, "are sent within %s, and without the enemy within %s", with, without)
			}
		}
	},
}
