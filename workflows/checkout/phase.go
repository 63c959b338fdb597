package checkout

import "slices"

// Phase is where a session stands in the eyes of its workflow.
type Phase string

// Phases of a session. Only paying and due have a payment in flight; the last three are final.
const (
	PhaseOpen     Phase = "open"     // waits for the customer to pay
	PhasePaying   Phase = "paying"   // if the payment fails, the session is open again
	PhaseDue      Phase = "due"      // if the payment fails, the session expires
	PhaseExpiring Phase = "expiring" // its end is being written
	PhaseExpired  Phase = "expired"
	PhaseEnded    Phase = "ended"    // completed or failed by a payment
	PhaseOrphaned Phase = "orphaned" // PostgreSQL has no row: the creation was rolled back
)

// Phases lists every phase, in the order of a session's life.
var Phases = []Phase{PhaseOpen, PhasePaying, PhaseDue, PhaseExpiring, PhaseExpired, PhaseEnded, PhaseOrphaned}

// Final reports whether no other phase follows.
func (p Phase) Final() bool {
	return p == PhaseExpired || p == PhaseEnded || p == PhaseOrphaned
}

// Message is what somebody asks of a session.
type Message string

// Messages of a session.
const (
	MessagePay      Message = "pay"      // charge the card of a payment
	MessageComplete Message = "complete" // ask the card network whether a payment was paid
	MessageExpire   Message = "expire"   // end the session now
	MessageAdvance  Message = "advance"  // end the session as soon as no payment is in flight
)

// Messages lists every message.
var Messages = []Message{MessagePay, MessageComplete, MessageExpire, MessageAdvance}

// About says which payment a message names. Expire and advance name none.
type About string

// What a message can be about.
const (
	AboutNone        About = "none"         // no transaction id
	AboutUnknown     About = "unknown"      // a payment that the session's run does not know
	AboutInFlight    About = "in flight"    // the payment in flight
	AboutAskedEnough About = "asked enough" // the payment in flight, too often asked about
	AboutDecided     About = "decided"      // a payment that was decided before
)

// Abouts lists everything that a message can be about.
var Abouts = []About{AboutNone, AboutUnknown, AboutInFlight, AboutAskedEnough, AboutDecided}

// Answer says whether a session accepts a message, and why it does not. A reason is the type
// of the error that the caller gets from Temporal.
type Answer string

// Answers to a message.
const (
	Accepted               Answer = "accepted"
	RefusedNotPending      Answer = "SessionNotPending"
	RefusedPaymentInFlight Answer = "PaymentInFlight"
	RefusedPaymentNotFound Answer = "PaymentNotFound"
	RefusedNotPossible     Answer = "PaymentNotPossible" // no rate, or no payout of this amount
)

// phaseAnswers are the answers of each phase in the order of Messages: to pay, complete, expire and advance. That to
// complete is about a payment that the session's run does not know.
var phaseAnswers = map[Phase][]Answer{
	PhaseOpen:     {Accepted, RefusedPaymentNotFound, Accepted, Accepted},
	PhasePaying:   {RefusedPaymentInFlight, RefusedPaymentNotFound, RefusedPaymentInFlight, Accepted},
	PhaseDue:      {RefusedPaymentInFlight, RefusedPaymentNotFound, RefusedPaymentInFlight, RefusedPaymentInFlight},
	PhaseExpiring: {RefusedNotPending, RefusedNotPending, Accepted, Accepted},
	PhaseExpired:  {RefusedNotPending, RefusedNotPending, Accepted, Accepted},
	PhaseEnded:    {RefusedNotPending, RefusedNotPending, RefusedNotPending, RefusedNotPending},
	PhaseOrphaned: {RefusedNotPending, RefusedNotPending, RefusedNotPending, RefusedNotPending},
}

// completeAnswers are the answers to complete that are the same in every phase.
var completeAnswers = map[About]Answer{
	AboutInFlight:    Accepted,               // the card network is asked
	AboutAskedEnough: RefusedPaymentInFlight, // the payment's deadline decides it
	AboutDecided:     Accepted,               // the decision is the answer
}

// Answer returns how a session in phase p answers m. A message that has taken effect is accepted again and changes
// nothing. Source: api/decisions/sessions.md, "expire" and "test clock".
func (p Phase) Answer(m Message, about About) Answer {
	switch {
	case about == AboutNone && (m == MessagePay || m == MessageComplete):
		return RefusedPaymentNotFound
	case m == MessageComplete && about != AboutUnknown:
		return completeAnswers[about]
	}
	return phaseAnswers[p][slices.Index(Messages, m)]
}
