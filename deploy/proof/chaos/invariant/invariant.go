// Package invariant checks the service after everything has come to rest. PostgreSQL, Temporal and
// the receivers' log are the witnesses. Gather reads them, and Check compares them.
//
// To add an invariant, add a method of world to the file of its noun, and a line in All.
package invariant

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"example.com/checkout/workflows/checkout"
)

// Invariant is one condition that must hold.
type Invariant struct {
	Number int    `json:"number"`
	Names  string `json:"names"` // the kind of thing that a violation's id names

	needs *witness // nil: PostgreSQL and Temporal are enough
	check func(w *world, r *Result)

	Title string `json:"title"` // a sentence
}

// witness is somebody without whom an invariant is not checked.
type witness struct {
	missing string // why it is not checked then
	present func(*Facts) bool
}

var (
	receivers = &witness{"no receiver log was given", func(f *Facts) bool { return f.Logged }}
	clients   = &witness{"nobody recorded the calls of clients", func(f *Facts) bool { return f.Called }}
	readers   = &witness{"no merchant read its balance", func(f *Facts) bool { return f.Told != nil }}
	outside   = &witness{"there is no simulated live mode", func(f *Facts) bool { return f.Live != nil }}
	search    = &witness{"nothing was looked for", func(f *Facts) bool { return f.Searched > 0 }}
	faults    = &witness{"nothing was broken here", func(f *Facts) bool { return f.Rest != nil }}
	counter   = &witness{"nothing was counted", func(f *Facts) bool { return f.Counted != nil }}
	replayer  = &witness{"no histories were read", func(f *Facts) bool { return len(f.Histories) > 0 }}
)

// All lists every invariant, by number.
var All = []Invariant{
	{1, "session", nil, (*world).overdue,
		"no session is pending long after its time, but for a payment that came in time"},
	{2, "session, or the constraint", nil, (*world).transitions,
		"every session has one of the four states and came to it by one transition"},
	{3, "session, transaction or event", nil, (*world).eventsOnce,
		"a completed session has one checkout.completed event and no other has one; every failed payment has its checkout.failed"},
	{4, "session", nil, (*world).expiries,
		"nothing is paid on an expired session or after its time, and nothing expires early unless somebody wished it"},
	{5, "session or transaction", nil, (*world).charges,
		"the card network charged each completed session once and no other"},
	{6, "event", nil, (*world).fanOut,
		"every event has a delivery for each registration that had to get it, or for its session's own address"},
	{7, "delivery", nil, (*world).workflows,
		"every delivery has a workflow, with the runs that its row counts, and every such workflow a row"},
	{8, "delivery", nil, (*world).outcomes,
		"a delivery's row says what the last run of its workflow says"},
	{9, "delivery", receivers, (*world).acknowledgements,
		"a receiver accepted what is delivered, and nothing that is failed after the last request"},
	{10, "delivery", nil, (*world).schedule,
		"a run has at most the schedule's attempts, of one request each"},
	{11, "delivery, or the listener when a request names none", receivers, (*world).requests,
		"every request is signed rightly and just then, and carries its event's bytes to its delivery's address"},
	{12, "delivery, or the listener when a request names none", receivers, (*world).egress,
		"nothing comes to a forbidden address, from a redirect, or live over plain HTTP"},
	{13, "delivery", nil, (*world).attempts,
		"attempts and runs are numbered without a gap, and each attempt was noted before its request came"},
	{14, "session, or merchant and key", clients, (*world).answers,
		"what clients were told is so: a session that was acknowledged is there, an end that was told is its end"},
	{15, "merchant and key", clients, (*world).idempotency,
		"a key, however often it came and whatever broke meanwhile, made one session, and its first answer is kept"},
	{16, "session", nil, (*world).sessionRuns,
		"a session's last run says what its row says, runs while it is pending, and no workflow task of it failed"},
	{17, "session or payout", nil, (*world).payouts,
		"a completed session has one payout, which is sent once or fails, and says so once in each generation"},
	{18, "transaction, payout or event", nil, (*world).owners,
		"what belongs to a session belongs to its merchant and its mode"},
	{19, "canary", search, (*world).leaks,
		"card numbers, keys, secrets, their digests and passwords are in no log, table or history, e-mail addresses only in the tables that need them, callers' headers nowhere but their request ids in the log of requests"},
	{20, "what", faults, (*world).rest,
		"after the last fault everything comes to rest in time, no process holds what it does not need, and none ended by itself"},
	{21, "workflow type", counter, (*world).counts,
		"Temporal counts as many runs of sessions and deliveries, by status, as there are"},
	{22, "run", replayer, (*world).histories,
		"every history of a sample replays on this build"},
	{23, "session, charge or intent", outside, (*world).liveCharges,
		"a live charge is of its session's amount, what went back of it are its refunds, and nothing can be charged for a session that has ended"},
	{24, "payout or address", outside, (*world).livePayouts,
		"a live payout that was sent is paid by one transaction on its chain, no other is paid, and each address has the sum of its payouts"},
	{25, "transaction or transfer", outside, (*world).outflows,
		"every transaction of the treasury belongs to a transfer and uses its slot, any other froze the account, and each transfer says what the chain says"},
	{26, "account of the ledger", outside, (*world).ledger,
		"the live ledger is balanced, its wallet is what the chain has, and the card network owes what it charged and neither refunded nor holds"},
	{27, "payout", outside, (*world).given,
		"the money of each completed live payment went to its merchant, back to its customer, or into what was deducted, and an operator's refund never to both"},
	{28, "what", outside, (*world).freezes,
		"only an operator and those who have the treasury's key stop it"},
	{29, "payouts", outside, (*world).waits,
		"the payouts of honest merchants wait at most twice as long while an enemy acts"},
	{30, "payout", outside, (*world).burns,
		"an address that reverted a payout's transfer gets no other transfer of it"},
	{31, "merchant, mode and currency", nil, (*world).verdicts,
		"the ledger owes each merchant what its payments, refunds, disputes, reserves and payouts add up to"},
	{32, "merchant, mode and currency", readers, (*world).statements,
		"a merchant is told the balance that the ledger has, and its list adds up to that"},
	{33, "payout", nil, (*world).verdicts,
		"what is deducted from a payout is the sum of its deductions, not more than the payout, and booked where it is converted"},
	{34, "payout", nil, (*world).netPaid,
		"a payout pays at most what the deductions have left of it, at its rate"},
	{35, "transaction", nil, (*world).verdicts,
		"the refunds of a payment never exceed it, here and at the sandbox, and return at most its fee"},
	{36, "refund", nil, (*world).verdicts,
		"a refund ends or is looked at again, as the card network has it, with one event for each change to succeeded or failed"},
	{37, "transaction", nil, (*world).verdicts,
		"a reserve is kept once and released at most once, as a whole"},
	{38, "dispute", nil, (*world).verdicts,
		"a dispute has one event when it is opened and one for each decision"},
	{39, "event", nil, (*world).verdicts,
		"an event goes to the merchant and the mode that its subject belongs to"},
	{40, "key or refund", clients, (*world).refundOrders,
		"a key ordered one refund, and each refund that was acknowledged is there"},
}

// Violation is one case where an invariant does not hold.
type Violation struct {
	ID   string `json:"id"`
	Text string `json:"text"`
}

// Result is the result of one invariant's check.
type Result struct {
	Invariant
	Checked    int         `json:"checked"`               // rows, runs or requests
	NotChecked string      `json:"not_checked,omitempty"` // why nothing was checked
	Violations []Violation `json:"violations"`
}

// violated adds a violation. It shows times and durations to the millisecond.
func (r *Result) violated(id, format string, args ...any) {
	for i, arg := range args {
		switch arg := arg.(type) {
		case time.Time:
			args[i] = checkout.FormatTime(arg)
		case time.Duration:
			args[i] = arg.Round(time.Millisecond)
		}
	}
	r.Violations = append(r.Violations, Violation{ID: id, Text: fmt.Sprintf(format, args...)})
}

// Check checks every invariant on the facts. It does no I/O.
func Check(f *Facts) []Result {
	w := newWorld(f)
	results := make([]Result, 0, len(All))
	for _, i := range All {
		r := Result{Invariant: i, Violations: []Violation{}}
		if i.needs == nil || i.needs.present(f) {
			i.check(w, &r)
		} else {
			r.NotChecked = i.needs.missing
		}
		slices.SortStableFunc(r.Violations, func(a, b Violation) int { return strings.Compare(a.ID, b.ID) })
		results = append(results, r)
	}
	return results
}
