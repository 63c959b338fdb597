package invariant

import (
	"slices"
	"time"

	"example.com/checkout/workflows/webhook"
)

// A run without attempts is correct if it was put on hold or canceled before its first attempt.
// Then it is pending or canceled, or it was ended from outside and started again.
func (w *world) attempts(r *Result) {
	for _, d := range w.Deliveries {
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
			r.violated(a.Delivery, "no attempt %q was noted before its request came at %s", a.Attempt, a.At)
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
	without := 0
	for run := 1; run < d.Run; run++ {
		if !with[run] {
			without++
		}
	}
	known := len(w.runs[d.ID]) > 0 && !d.Moved && d.CreatedAt.After(w.At.Add(-w.RunRetention))
	if known && without > count(w.runs[d.ID], Run.abandoned) {
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

// fallbackShare is the part of the scheduled delay that passes at least after a worker died in an
// attempt. Then the retry policy's back-off applies: it is a geometric series, and the schedule is
// not.
const fallbackShare = 0.62

func (w *world) schedule(r *Result) {
	for _, d := range w.Deliveries {
		for _, a := range d.Attempts {
			r.Checked++
			w.checkRequestsOf(d, a, r)
		}
		wishes := w.wishes(d)
		for _, gap := range w.shortGaps(d) {
			a, b := gap[0], gap[1]
			var wished bool
			if wishes, wished = granted(wishes, a, b); !wished {
				r.violated(d.ID, "attempt %d.%d began %s after the end of the one before, and %s is the schedule",
					b.Run, b.Number, b.StartedAt.Sub(ended(a)), w.retryDelay(d, a.Number))
			}
		}
	}
}

// checkRequestsOf checks that each attempt made at most one request, and that the
// request came during its attempt.
func (w *world) checkRequestsOf(d *Delivery, a webhook.Attempt, r *Result) {
	if a.Number > webhook.MaxAttempts {
		r.violated(d.ID, "has an attempt %d.%d", a.Run, a.Number)
	}
	got := w.byAttempt[attemptKey{d.ID, a.Run, a.Number}]
	if len(got) > 1 {
		r.violated(d.ID, "attempt %d.%d made %d requests", a.Run, a.Number, len(got))
	}
	for _, one := range got {
		// A request without an answer may stay in a receiver's queue for a long time.
		if a.StatusCode != 0 && one.At.After(ended(a).Add(noteTime)) {
			r.violated(d.ID, "attempt %d.%d had ended when its request came", a.Run, a.Number)
		}
	}
}

// shortGaps returns the pairs of attempts whose second attempt came before its due time.
func (w *world) shortGaps(d *Delivery) [][2]webhook.Attempt {
	var short [][2]webhook.Attempt
	for i := 1; i < len(d.Attempts); i++ {
		a, b := d.Attempts[i-1], d.Attempts[i]
		if a.Run != b.Run || b.Number != a.Number+1 {
			continue
		}
		delay := w.retryDelay(d, a.Number)
		if !a.Finished {
			delay = time.Duration(float64(delay) * fallbackShare)
		}
		if b.StartedAt.Before(ended(a).Add(delay - clockSkew)) {
			short = append(short, [2]webhook.Attempt{a, b})
		}
	}
	return short
}

// wishTime is how long after a retry_now the previous attempt may still have begun: the signal was
// on its way at that time. The signal then hastens the next attempt.
const wishTime = 5 * time.Second

// wishes returns the times of the requests for retry_now. Temporal's history has all of them. The
// row has only the last one, with a slightly earlier time.
func (w *world) wishes(d *Delivery) []time.Time {
	var times []time.Time
	for _, run := range w.runs[d.ID] {
		times = append(times, run.RetryNow...)
	}
	known := d.HurriedAt != nil &&
		slices.ContainsFunc(times, func(t time.Time) bool { return t.Sub(*d.HurriedAt).Abs() < wishTime })
	if d.HurriedAt != nil && !known {
		times = append(times, *d.HurriedAt)
	}
	return times
}

// granted reports whether one of the wishes explains attempt b after a. It returns the remaining
// wishes, because each is for one attempt.
func granted(wishes []time.Time, a, b webhook.Attempt) ([]time.Time, bool) {
	for i, t := range wishes {
		if !t.Before(a.StartedAt.Add(-wishTime)) && !t.After(b.StartedAt.Add(clockSkew)) {
			return slices.Delete(slices.Clone(wishes), i, i+1), true
		}
	}
	return wishes, false
}
