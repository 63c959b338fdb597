package invariant

import (
	"slices"
	"time"

	"example.com/checkout/workflows/checkout"
)

// A fault that is not the enemy's may hold all payouts for up to two minutes: a worker that dies while it runs an
// activity, for example. It says little when few payouts are compared.
const (
	faultHold     = 2 * time.Minute
	fewestWaiting = 50 // on each side
)

func (w *world) waits(r *Result) {
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
	if min(len(calm), len(besieged)) < fewestWaiting {
		return
	}
	without, with := calm[len(calm)*9/10], besieged[len(besieged)*9/10]
	if with > 2*without+faultHold {
		r.violated("nine tenths", "are sent within %s, and without the enemy within %s", with, without)
	}
}
