package invariant

import (
	"time"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// A run without attempts is correct if it was put on hold or canceled before its first attempt.
// Then it is pending or canceled, or it was ended from outside and started again.
func (w *world) attempts(r *Result) {
	for i := range w.Deliveries {
		d := &w.Deliveries[i]
		r.Checked++
		w.checkRuns(d, r)
		for run := 1; run <= d.Run; run++ {
			w.checkNumbers(d, run, r)
		}
	}
	for _, a := range w.arrivals {
		if a.delivery == nil || a.Canary {
			continue
		}
		r.Checked++
		if a.attempt == nil {
			r.violated(
				a.Delivery, "no attempt %q was noted before its request came at %s", a.Attempt,
				checkout.FormatTime(a.At),
			)
		}
	}
}

func (w *world) checkRuns(d *Delivery, r *Result) {
	with := map[int]bool{}
	for _, a := range d.Attempts {
		with[a.Run] = true
		if a.Run < 1 || a.Run > d.Run {
			r.violated(d.ID, "has an attempt %d.%d and counts %d runs", a.Run, a.Number, d.Run)
		}
	}

	final := d.Status == webhook.DeliveryDelivered || d.Status == webhook.DeliveryFailed
	if final && !with[d.Run] {
		r.violated(d.ID, "is %s, and run %d has no attempts", d.Status, d.Run)
	}

	without, abandoned := 0, 0
	for run := 1; run < d.Run; run++ {
		if !with[run] {
			without++
		}
	}

	for _, run := range w.runs[d.ID] {
		if run.abandoned() {
			abandoned++
		}
	}
	if known := len(w.runs[d.ID]) > 0 && !d.Moved && d.CreatedAt.After(w.At.Add(-w.RunRetention)); known &&
		without > abandoned {
		r.violated(d.ID, "%d of its %d runs have no attempts", without, d.Run)
	}
}

// checkNumbers checks the numbers of attempts. A number may be missing only if its attempt died
// before it was noted. The long time until the next attempt shows this.
func (w *world) checkNumbers(d *Delivery, run int, r *Result) {
	next, from := 1, w.startOf(d, run)
	for _, a := range d.ofRun(run) {
		switch {
		case a.Number < next:
			r.violated(d.ID, "has attempt %d.%d twice", run, a.Number)
		case a.Number > next && !lost(from, a.StartedAt, next, a.Number-1):
			r.violated(d.ID, "has no attempt %d.%d", run, next)
		}
		next = a.Number + 1
		from = ended(a)
		if a.Finished {
			from = from.Add(w.retryDelay(d, a.Number))
		}
	}
}

// startOf returns the time when a run began, or an earlier time.
func (w *world) startOf(d *Delivery, run int) time.Time {
	if runs := w.runs[d.ID]; len(runs) == d.Run {
		return runs[run-1].StartedAt
	}
	return d.CreatedAt
}
