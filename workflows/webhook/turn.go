package webhook

import "time"

// Turn is one try of a SendAttempt activity to make an attempt.
type Turn struct {
	RunID string    // of Temporal's run that began the run of the delivery's log
	Made  int       // attempts of the run that were made before the activity was scheduled
	Try   int       // of the activity, by Temporal's count, from 1
	Local bool      // a local activity: Temporal counts no try of it, and repeats it when its worker dies
	Now   time.Time // zero: PostgreSQL's clock. Tests of workflows skip time
}

// number is that of the attempt by Temporal's count, which also has the tries
// that no worker began.
func (t Turn) number() int { return t.Made + t.Try }

// Standing is what the row of a delivery knows when a Turn comes. Attempts,
// Counted, Sending, Due and Hurried are of the run that RunID began.
type Standing struct {
	Status   DeliveryStatus
	RunID    string    // of Temporal's run that began the last run of the log; "" before the first
	Attempts int       // that were noted, with one under way
	Counted  int       // of these, those that Temporal's retry policy has counted
	Sending  bool      // the last of them has not ended: it is under way, or its worker died
	Due      time.Time // of the next attempt
	Hurried  bool      // retry_now has come since the last attempt began
	Held     bool      // on hold, by itself or by its endpoint
	Deleted  bool      // its endpoint was deleted: nothing is sent
}

// Step is what a Turn does.
type Step string

// Steps.
const (
	StepBegin  Step = "begin"  // note the attempt and send it
	StepPark   Step = "park"   // on hold: wait for the signal resume
	StepReport Step = "report" // an attempt was made that Temporal has not counted: fail as it failed
	StepEarly  Step = "early"  // the next attempt is not due yet
	StepAgain  Step = "again"  // an operator reset the activity: begin a new run of the log
	StepGone   Step = "gone"   // the delivery has ended, or its endpoint was deleted
)

// Decision is a Step with what it needs.
type Decision struct {
	Step   Step
	Number int           // of the attempt in its run: with StepBegin and StepReport
	NewRun bool          // it begins a run of the log: a replay, a reset, the very first
	Wait   time.Duration // until the next attempt is due: with StepReport and StepEarly
}

// EarlyTolerance is how much before its time an attempt may begin: the clocks of
// Temporal and PostgreSQL are not one.
const EarlyTolerance = 50 * time.Millisecond

// Decide says what the turn does. README.md of package workflows has the table.
func (s Standing) Decide(t Turn) Decision {
	newRun := s.RunID != t.RunID
	switch {
	case s.Deleted, !newRun && s.Status != DeliveryPending:
		return Decision{Step: StepGone}
	case newRun && s.Held:
		return Decision{Step: StepPark, NewRun: true}
	case newRun:
		return Decision{Step: StepBegin, Number: 1, NewRun: true}
	case s.uncounted(t):
		return Decision{Step: StepReport, Number: t.number(), Wait: s.untilDue(t)}
	case s.reset(t):
		return Decision{Step: StepAgain, NewRun: true}
	case !s.Hurried && s.untilDue(t) > EarlyTolerance:
		return Decision{Step: StepEarly, Wait: s.untilDue(t)}
	case s.Held:
		return Decision{Step: StepPark}
	}
	return Decision{Step: StepBegin, Number: min(t.number(), s.Attempts+1)}
}

// uncounted reports whether the attempt was made already, as a local activity,
// and Temporal does not know.
func (s Standing) uncounted(t Turn) bool {
	if t.Local {
		return s.Attempts > 0
	}
	return s.Counted < t.number() && t.number() <= s.Attempts
}

// reset reports whether Temporal's count stands at an attempt that it has counted
// before. One that has not ended is no reset: the answer to its note was lost.
func (s Standing) reset(t Turn) bool {
	unfinished := s.Sending && t.number() == s.Attempts
	return t.number() <= s.Counted && !unfinished
}

// untilDue returns how long until the next attempt is due; 0 when it is. StepReport
// waits that long also when it is wanted now: the signal that follows ends the
// waiting, and would else hasten the attempt after.
func (s Standing) untilDue(t Turn) time.Duration { return max(s.Due.Sub(t.Now), 0) }
