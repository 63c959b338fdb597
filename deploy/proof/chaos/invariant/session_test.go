package invariant

import (
	"net/http"
	"slices"
	"time"

	enumspb "go.temporal.io/api/enums/v1"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/contract"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/webhook"
)

// addSessions adds two sessions. cs_1 has the events of newFacts; its second payment completed it,
// and it was paid out. cs_2 expired because its merchant asked for it. Except for the two events,
// everything is older than the deliveries' log.
func (f *Facts) addSessions() {
	f.Constraints = slices.Clone(guards)
	for i := range f.Events {
		f.Events[i].SubjectID = "txn_" + f.Events[i].ID
	}
	made := noon.Add(-10 * time.Minute)
	f.Sessions = []*Session{
		{ID: "cs_1", MerchantID: "mer_1", Mode: checkout.ModeTest, Status: checkout.StatusCompleted, Key: "key-1", CreatedAt: made, ExpiresAt: made.Add(time.Hour), EndedAt: new(noon)},
		{ID: "cs_2", MerchantID: "mer_1", Mode: checkout.ModeTest, Status: checkout.StatusExpired, Key: "key-2", CreatedAt: made, ExpiresAt: made.Add(time.Hour), EndedAt: new(noon)},
	}
	f.Transactions = []Transaction{
		{ID: "txn_evt_bad", SessionID: "cs_1", MerchantID: "mer_1", Mode: checkout.ModeTest, Status: checkout.TransactionFailed, SessionStatus: checkout.StatusPending, CreatedAt: made, CompletedAt: new(made)},
		{ID: "txn_evt_ok", SessionID: "cs_1", MerchantID: "mer_1", Mode: checkout.ModeTest, Status: checkout.TransactionSucceeded, SessionStatus: checkout.StatusCompleted, CreatedAt: noon.Add(-time.Second), CompletedAt: new(noon)},
	}
	f.Charges = []Charge{{"txn_evt_bad", "cs_1", checkout.OutcomeFailed}, {"txn_evt_ok", "cs_1", checkout.OutcomeSucceeded}}
	f.Payouts = []Payout{{ID: "po_1", SessionID: "cs_1", TransactionID: "txn_evt_ok", MerchantID: "mer_1", Mode: checkout.ModeTest, Status: checkout.PayoutSent, Generation: 1, Transfers: 1,
		Amount: "12.6", Currency: money.USDC, SourceAmount: 1050, SourceCurrency: money.EUR, ExchangeRate: money.MustRate("1.2")}}
	f.Events = append(f.Events, Event{
		ID: "evt_sent", MerchantID: "mer_1", Mode: checkout.ModeTest, Type: webhook.PayoutSent, SubjectID: "po_1", SessionID: "cs_1", CreatedAt: noon.Add(-2 * time.Hour),
	})
	f.KeptRequests = []KeptRequest{{"mer_1", createRoute, "key-1", checkout.ModeTest, 201}, {"mer_1", createRoute, "key-2", checkout.ModeTest, 201}}
	for id, result := range map[string]checkout.Status{"cs_1": checkout.StatusCompleted, "cs_2": checkout.StatusExpired} {
		f.Runs = append(f.Runs, Run{
			Type: contract.TypeCheckoutSession, WorkflowID: id, RunID: "run of " + id, Status: completed, StartedAt: made, Last: true,
			Result: string(result),
		})
	}
	f.Histories = []History{{WorkflowID: "cs_1", RunID: "r1"}}
	f.Searched = 1
	f.Rest, f.Called = &Rest{After: 10 * time.Second, Within: 30 * time.Second}, true
	f.Calls = []Call{
		{Op: OpCreate, MerchantID: "mer_1", Key: "key-1", At: made, EndedAt: made},
		{Op: OpCreate, MerchantID: "mer_1", Key: "key-1", ID: "cs_1", At: made, EndedAt: made, Status: http.StatusCreated, Told: checkout.StatusPending},
		{Op: OpCreate, MerchantID: "mer_1", Key: "key-2", ID: "cs_2", At: made, EndedAt: made, Status: http.StatusCreated, Told: checkout.StatusPending},
		{Op: OpGet, MerchantID: "mer_1", ID: "cs_1", At: noon, EndedAt: noon, Status: http.StatusOK, Told: checkout.StatusCompleted},
		{Op: OpExpire, MerchantID: "mer_1", ID: "cs_1", At: noon, EndedAt: noon, Status: http.StatusConflict, Told: checkout.StatusCompleted},
		{Op: OpExpire, MerchantID: "mer_1", ID: "cs_2", At: noon, EndedAt: noon, Status: http.StatusOK, Told: checkout.StatusExpired},
	}
}

// counted sets Temporal's counts to the number of runs.
func (f *Facts) counted(workflowType string) Tally {
	f.Counted = map[string]Tally{workflowType: f.tally(workflowType)}
	return f.Counted[workflowType]
}

func (f *Facts) session(id string) *Session {
	return f.Sessions[slices.IndexFunc(f.Sessions, func(s *Session) bool { return s.ID == id })]
}

// rowless adds a session's run without a row.
func (f *Facts) rowless(r Run) {
	r.Type, r.WorkflowID, r.RunID, r.Last = contract.TypeCheckoutSession, "cs_9", "r9", true
	f.Runs = append(f.Runs, r)
}

// sessionCases are cases of TestCheck_NamesExactlyWhatIsBroken.
var sessionCases = []brokenCase{
	// 1
	{"1: pending a minute after its time", func(f *Facts) {
		s := f.session("cs_2")
		s.Status, s.EndedAt, s.ExpiresAt = checkout.StatusPending, nil, f.At.Add(-time.Minute)
		f.lastRun("cs_2").Status, f.Calls = running, f.Calls[:2]
	}, "1 cs_2"},
	{"1: a payment that came in time may go on", func(f *Facts) {
		s := f.session("cs_2")
		s.Status, s.EndedAt, s.ExpiresAt, s.InFlight = checkout.StatusPending, nil, f.At.Add(-time.Minute), true
		f.lastRun("cs_2").Status, f.Calls = running, f.Calls[:2]
	}, ""},

	// 2
	{"2: a constraint is gone", func(f *Facts) { f.Constraints = f.Constraints[1:] }, "2 " + guards[0]},
	{"2: an end without a time", func(f *Facts) { f.session("cs_2").EndedAt = nil }, "2 cs_2"},
	{"2: two payments ended it", func(f *Facts) { f.Transactions[0].SessionStatus = checkout.StatusFailed }, "2 cs_1"},
	{"2: failed without a payment that says so", func(f *Facts) {
		f.session("cs_2").Status, f.lastRun("cs_2").Result, f.Calls = checkout.StatusFailed, string(checkout.StatusFailed), f.Calls[:2]
	}, "2 cs_2"},
	{"2: a status that there is not", func(f *Facts) { f.session("cs_2").Status = "lost" }, "14 cs_2, 16 cs_2, 2 cs_2"},
	{"2: a payment made it something else", func(f *Facts) { f.Transactions[1].SessionStatus = checkout.StatusFailed }, "2 cs_1"},

	// 3
	{"3: completed twice", func(f *Facts) {
		e := *f.eventOf("evt_ok")
		e.ID, e.CreatedAt = "evt_again", noon.Add(-2*time.Hour)
		f.Events = append(f.Events, e)
	}, "3 cs_1"},
	{"3: completed, and nobody is told", func(f *Facts) { f.eventOf("evt_ok").Type = webhook.CheckoutFailed }, "11 whd_ok, 3 cs_1"},
	{"3: a failed payment of which nobody is told", func(f *Facts) { f.eventOf("evt_bad").SubjectID = "txn_x" }, "3 txn_evt_bad"},
	{"3: an expired session that says completed", func(f *Facts) {
		f.Events = append(f.Events, Event{ID: "evt_x", MerchantID: "mer_1", Mode: checkout.ModeTest, Type: webhook.CheckoutCompleted, SubjectID: "txn_x", SessionID: "cs_2", CreatedAt: noon.Add(-2 * time.Hour)})
	}, "3 cs_2"},
	{"3: an event of a session that is not there", func(f *Facts) {
		f.Events = append(f.Events, Event{ID: "evt_x", MerchantID: "mer_1", Mode: checkout.ModeTest, Type: webhook.CheckoutCompleted, SubjectID: "txn_x", SessionID: "cs_9", CreatedAt: noon.Add(-2 * time.Hour)})
	}, "18 evt_x, 3 evt_x"},

	// 4
	{"4: paid after its time", func(f *Facts) { f.Transactions[1].CreatedAt = f.session("cs_1").ExpiresAt }, "4 cs_1"},
	{"4: expired early, and nobody wished it", func(f *Facts) { f.Calls = f.Calls[:len(f.Calls)-1] }, "4 cs_2"},
	{"4: expired, and a payment succeeded", func(f *Facts) {
		f.Transactions = append(f.Transactions, Transaction{ID: "txn_2", SessionID: "cs_2", MerchantID: "mer_1", Mode: checkout.ModeTest, Status: checkout.TransactionSucceeded, SessionStatus: checkout.StatusPending, CreatedAt: noon})
	}, "4 cs_2"},

	// 5
	{"5: an expired session was charged", func(f *Facts) {
		f.Charges = append(f.Charges, Charge{"txn_2", "cs_2", checkout.OutcomeSucceeded})
		f.Transactions = append(f.Transactions, Transaction{ID: "txn_2", SessionID: "cs_2", MerchantID: "mer_1", Mode: checkout.ModeTest, Status: "created"})
	}, "5 cs_2"},
	{"5: a charge of no transaction", func(f *Facts) { f.Charges = append(f.Charges, Charge{"txn_x", "cs_9", checkout.OutcomeSucceeded}) }, "5 txn_x"},
	{"5: charged twice", func(f *Facts) { f.Charges[0].Outcome = checkout.OutcomeSucceeded }, "5 cs_1"},
	{"5: completed and not charged", func(f *Facts) { f.Charges = slices.Delete(f.Charges, 1, 2) }, "5 cs_1"},
	{"5: charged for a session that is not there", func(f *Facts) {
		f.Charges = append(f.Charges, Charge{"txn_2", "cs_9", checkout.OutcomeSucceeded})
		f.Transactions = append(f.Transactions, Transaction{ID: "txn_2", SessionID: "cs_9", MerchantID: "mer_1", Mode: checkout.ModeTest})
	}, "18 txn_2, 5 txn_2"},

	// 14
	{"14: acknowledged and not there", func(f *Facts) { f.Calls[1].ID, f.Calls[1].Key = "cs_9", "" }, "14 cs_9"},
	{"14: told expired, and it is completed", func(f *Facts) { f.Calls[3].Told = checkout.StatusExpired }, "14 cs_1"},
	{"14: refused with another end", func(f *Facts) { f.Calls[4].Told = checkout.StatusFailed }, "14 cs_1"},
	{"14: expire was answered 200", func(f *Facts) { f.Calls[4].Status, f.Calls[4].Told = http.StatusOK, "" }, "14 cs_1"},
	{"14: told that it is not there", func(f *Facts) { f.Calls[3].Status, f.Calls[3].Told = http.StatusNotFound, "" }, "14 cs_1"},
	{"14: answered to another merchant", func(f *Facts) { f.Calls[3].MerchantID = "mer_2" }, "14 cs_1"},

	// 15
	{"15: a key made two sessions", func(f *Facts) { f.session("cs_2").Key = "key-1" }, "15 mer_1 key-1, 15 mer_1 key-2"},
	{"15: a key was answered with two", func(f *Facts) { f.Calls[0].ID, f.Calls[0].Status = "cs_2", http.StatusCreated }, "15 mer_1 key-1"},
	{"15: an answer that is not kept", func(f *Facts) { f.KeptRequests[0].Status = 0 }, "15 mer_1 key-1"},
	{"15: another merchant's key is its own", func(f *Facts) { f.Calls[0].MerchantID = "mer_2" }, ""},
	{"15: answered with another key's session", func(f *Facts) { f.Calls[1].ID = "cs_2" }, "15 mer_1 key-1"},

	// 16
	{"16: the run says otherwise", func(f *Facts) { f.lastRun("cs_1").Result = string(checkout.StatusExpired) }, "16 cs_1"},
	{"16: the run goes on", func(f *Facts) { f.lastRun("cs_1").Status = running }, "16 cs_1"},
	{"16: the run goes on until the time of a session that was expired early", func(f *Facts) {
		f.lastRun("cs_2").Status, f.session("cs_2").ExpiresAt = running, f.At.Add(time.Minute)
	}, ""},
	{"16: and not longer", func(f *Facts) { f.lastRun("cs_2").Status = running }, "16 cs_2"},
	{"16: the run failed", func(f *Facts) { f.lastRun("cs_1").Status = failed }, "16 cs_1"},
	{"16: no run", func(f *Facts) { f.removeRun("cs_1") }, "16 cs_1"},
	{"16: terminated by nobody", func(f *Facts) { f.lastRun("cs_1").Status = terminated }, "16 cs_1"},
	{"16: and not late", func(f *Facts) { f.rowless(Run{Status: running, ExpiresAt: noon}) }, "16 cs_9"},
	{"16: a run that ended a session that is not there", func(f *Facts) {
		f.rowless(Run{Status: completed, Result: string(checkout.StatusExpired)})
	}, "16 cs_9"},
	{"16: a workflow task failed", func(f *Facts) {
		f.Histories[0].TaskFailures = []string{enumspb.WORKFLOW_TASK_FAILED_CAUSE_NON_DETERMINISTIC_ERROR.String()}
	}, "16 cs_1"},

	// 17
	{"17: sent twice", func(f *Facts) { f.Payouts[0].Transfers = 2 }, "17 po_1"},
	{"17: sent, and nobody is told", func(f *Facts) { f.eventOf("evt_sent").SubjectID = "po_x" }, "17 po_1"},
	{"17: told both", func(f *Facts) {
		e := *f.eventOf("evt_sent")
		e.ID, e.Type = "evt_both", webhook.PayoutFailed
		f.Events = append(f.Events, e)
	}, "17 po_1"},
	{"17: failed, and a payout of the balance was sent", func(f *Facts) {
		p := f.Payouts[0]
		p.ID, p.SessionID, p.TransactionID = "po_balance", "", ""
		f.Payouts = append(f.Payouts, p)
	}, "17 po_balance"},
	{"17: completed without a payout", func(f *Facts) { f.Payouts = f.Payouts[1:] }, "17 cs_1"},
	{"17: failed, and sent all the same", func(f *Facts) { f.Payouts[0].Status = checkout.PayoutFailed }, "17 po_1"},
	{"17: retried, and nobody was told of the failure", func(f *Facts) { f.Payouts[0].Generation = 2 }, "17 po_1"},

	// 18
	{"18: a transaction of another merchant", func(f *Facts) { f.Transactions[0].MerchantID = "mer_2" }, "18 txn_evt_bad"},
	{"18: a payout of the other mode", func(f *Facts) { f.Payouts[0].Mode = checkout.ModeLive }, "18 po_1, 24 po_1"},

	// 19
	{"19: a card number in a log", func(f *Facts) { f.Leaks = []Leak{{"card number ending in 4242", "worker.log", 1}} }, "19 card number ending in 4242"},

	// 20
	{"20: never at rest", func(f *Facts) { f.Rest.Restless = "1 pending sessions" }, "20 everything"},
	{"20: at rest too late", func(f *Facts) { f.Rest.After = 31 * time.Second }, "20 everything"},
	{"20: a transaction that was left open", func(f *Facts) { f.Rest.IdleInTx = 1 }, "20 PostgreSQL"},
	{"20: files leak", func(f *Facts) { f.Rest.Held = []Held{{"API 1", Hold{30, 60, 50}, Hold{117, 1000, 110}}} }, "20 API 1"},
	{"20: goroutines leak", func(f *Facts) { f.Rest.Held = []Held{{"worker 2", Hold{30, 60, 50}, Hold{110, 1073, 110}}} }, "20 worker 2"},
	{"20: memory leaks", func(f *Facts) { f.Rest.Held = []Held{{"worker 2", Hold{30, 60, 50}, Hold{110, 1000, 121}}} }, "20 worker 2"},
	{"20: a process ended by itself", func(f *Facts) { f.Rest.UnwishedExits = []string{"API 1"} }, "20 API 1"},

	// 21
	{"21: a run that Temporal does not count", func(f *Facts) { f.counted(contract.TypeWebhookDelivery)[completed]-- }, "21 WebhookDelivery"},
	{"21: a run that Temporal counts otherwise", func(f *Facts) {
		f.counted(contract.TypeCheckoutSession)[completed]--
		f.Counted[contract.TypeCheckoutSession][running]++
	}, "21 CheckoutSession"},

	// 22
	{"22: a history does not replay", func(f *Facts) { f.Histories[0].ReplayError = "TMPRL1100" }, "22 cs_1"},
}
