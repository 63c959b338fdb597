package webhook

import "time"

// Turn is one execution of the activity SendAttempt.
type Turn struct {
	RunID        string    // Temporal's run that began the current run of the delivery's log
	AttemptsMade int       // the run's attempts before the activity was scheduled
	Try          int       // Temporal's number of this execution, from 1
	Local        bool      // a local activity: Temporal does not count it, and repeats it when its worker dies
	Now          time.Time // set by tests that skip time; zero means PostgreSQL's clock
}

// number returns the attempt's number by Temporal's count. Temporal also counts executions that no worker began.
func (t Turn) number() int { return t.AttemptsMade + t.Try }

// DeliverySnapshot is the state of a delivery's row when a Turn begins. Attempts, Counted, Sending, Due
// and Hurried describe the run that RunID began.
type DeliverySnapshot struct {
	Status   DeliveryStatus
	RunID    string    // Temporal's run that began the last run of the log; "" before the first
	Attempts int       // attempts noted, including one under way
	Counted  int       // number of the last attempt that Temporal's retry policy has counted
	Sending  bool      // the last attempt has not ended: it is under way, or its worker died
	Due      time.Time // when the next attempt is due
	Hurried  bool      // retry_now has come since the last attempt began
	Held     bool      // the delivery is on hold, or its endpoint is disabled
	Deleted  bool      // the endpoint was deleted, so nothing is sent
}

// Step is the action of a Turn.
type Step string

// Steps.
const (
	StepBegin  Step = "begin"  // note the attempt and send it
	StepPark   Step = "park"   // on hold: wait for the signal resume
	StepReport Step = "report" // an attempt was made that Temporal has not counted: fail as it failed
	StepEarly  Step = "early"  // the next attempt is not due yet
	StepAgain  Step = "again"  // an operator reset the activity: begin a new run of the log
	StepBusy   Step = "busy"   // the endpoint has as many attempts under way, or a second, as its merchant allows
	StepEnd    Step = "end"    // the delivery has ended, or its endpoint was deleted
)

// Decision is a Step and its values.
type Decision struct {
	Step   Step
	Number int           // the attempt's number in its run; set with StepBegin and StepReport
	NewRun bool          // a run of the log begins: the first one, a replay or a reset
	Wait   time.Duration // time until the next attempt is due; set with StepReport, StepEarly and StepBusy
}

// EarlyTolerance is how long before its due time an attempt may begin. The clocks of Temporal
// and PostgreSQL differ a little.
const EarlyTolerance = 50 * time.Millisecond

// Decide returns the action of the turn. workflows/README.md has the table of all cases.
func (s DeliverySnapshot) Decide(t Turn) Decision {
	newRun := s.RunID != t.RunID
	switch {
	case s.Deleted, !newRun && s.Status != DeliveryPending:
		return Decision{Step: StepEnd}
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

// uncounted reports whether the attempt was already made as a local activity, so that Temporal has not counted it.
func (s DeliverySnapshot) uncounted(t Turn) bool {
	if t.Local {
		return s.Attempts > 0
	}
	return s.Counted < t.number() && t.number() <= s.Attempts
}

// reset reports whether an operator reset the activity: Temporal's count is at an attempt that was counted before. An
// attempt that has not ended is no sign of a reset: its note was written, but PostgreSQL's answer was lost.
func (s DeliverySnapshot) reset(t Turn) bool {
	unfinished := s.Sending && t.number() == s.Attempts
	return t.number() <= s.Counted && !unfinished
}

// untilDue returns the time until the next attempt is due; 0 when it is due. StepReport uses the full time even after
// retry_now: the signal itself ends that wait. Without the wait, one retry_now would hurry two attempts.
func (s DeliverySnapshot) untilDue(t Turn) time.Duration { return max(s.Due.Sub(t.Now), 0) }
