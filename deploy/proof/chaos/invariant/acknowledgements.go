package invariant

import (
	"time"

	"example.com/checkout/workflows/webhook"
)

func (w *world) acknowledgements(r *Result) {
	for i := range w.Deliveries {
		d := &w.Deliveries[i]
		if d.Moved {
			continue
		}
		if w.checkEnd(d, r) {
			r.Checked++
		}
		for _, a := range d.Attempts {
			if w.logged(d, a) {
				w.checkAttemptArrived(d, a, r)
			}
		}
	}
}

// checkEnd compares a delivery's status with the requests of its last run. It reports whether this
// was possible.
func (w *world) checkEnd(d *Delivery, r *Result) bool {
	last := d.ofRun(d.Run)
	for _, a := range last {
		if !w.logged(d, a) {
			return false
		}
	}
	switch d.Status {
	case webhook.DeliveryDelivered:
		for _, a := range last {
			if succeeded(a) && w.accepted(d, a) != nil {
				return true
			}
		}
		r.violated(d.ID, "is delivered, and no receiver accepted it in run %d", d.Run)
	case webhook.DeliveryFailed:
		w.checkFailed(d, last, r)
	default:
		return false
	}
	return true
}

// checkFailed checks a failed delivery. It must have all attempts, except those that died before
// they were noted. No request may be accepted, except those whose answer was lost on the way back.
func (w *world) checkFailed(d *Delivery, last []webhook.Attempt, r *Result) {
	if n := len(last); n > 0 && last[n-1].Number < webhook.MaxAttempts && d.FinishedAt != nil {
		a := last[n-1]
		from := ended(a).Add(w.retryDelay(d, a.Number))
		if !lost(from, *d.FinishedAt, a.Number+1, webhook.MaxAttempts) {
			r.violated(d.ID, "is failed after attempt %d of %d", a.Number, webhook.MaxAttempts)
		}
	}
	for _, a := range last {
		if got := w.accepted(d, a); got != nil && !answerLost(a, *got) {
			r.violated(d.ID, "is failed, and attempt %d.%d was answered %d", a.Run, a.Number, got.Status)
		}
	}
}

// accepted returns the request of an attempt that the receiver answered with 2xx, or nil.
func (w *world) accepted(d *Delivery, a webhook.Attempt) *arrival {
	for _, got := range w.byAttempt[attemptKey{d.ID, a.Run, a.Number}] {
		if got.Status >= 200 && got.Status <= 299 && got.AnsweredAt != nil {
			return &got
		}
	}
	return nil
}

// answerLost reports whether an answer may have been lost: the worker died, the connection broke,
// or the answer came at the very end of the time-out.
func answerLost(a webhook.Attempt, got arrival) bool {
	switch {
	case !a.Finished, a.ErrorKind == webhook.ErrorConnect, a.ErrorKind == webhook.ErrorInternal:
		return true
	case a.ErrorKind == webhook.ErrorTimeout:
		return got.AnsweredAt.After(ended(a).Add(-500 * time.Millisecond))
	}
	return false
}

// checkAttemptArrived checks an attempt with an answer: the receiver must have logged the request,
// with the same answer.
func (w *world) checkAttemptArrived(d *Delivery, a webhook.Attempt, r *Result) {
	if !a.Finished || (a.StatusCode == 0 && a.ErrorKind != webhook.ErrorHTTP) {
		return // such an attempt may have sent no request
	}
	got := w.byAttempt[attemptKey{d.ID, a.Run, a.Number}]
	if len(got) == 0 {
		r.violated(d.ID, "attempt %d.%d was answered %d, and no receiver saw it", a.Run, a.Number, a.StatusCode)
	}
	for _, one := range got {
		if a.StatusCode != 0 && one.Status != a.StatusCode {
			r.violated(
				d.ID, "attempt %d.%d says that %d was answered, the receiver says %d", a.Run, a.Number,
				a.StatusCode, one.Status,
			)
		}
	}
}
