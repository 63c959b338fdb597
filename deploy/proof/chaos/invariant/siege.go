package invariant

import (
	"slices"
	"time"

	"example.com/checkout/deploy/standin/devstack"
	"example.com/checkout/workflows/money"
)

// Siege is the run's record of attacks on the treasury, and of restores.
type Siege struct {
	Thefts []Theft
	Frozen []string // why the account was frozen, each time
	// Hostile is the merchant of an enemy, who acts during Sieges. During Halts an
	// operator, a node that did not answer or a high fee stopped the treasury.
	Hostile       string
	Sieges, Halts []Span
	// Lost are the times that a restore has taken out of PostgreSQL. Known are payouts of which merchants knew
	// before, by id.
	Lost  []Span
	Known map[string]LostPayout
}

// LostPayout is a payout whose row a restore may have taken.
type LostPayout struct {
	ID, TransactionID, Destination string
	Currency                       money.PayoutCurrency
	Amount                         string
	Hashes                         []string // of the versions of its transfer
}

// unasked reports whether a restore has taken from PostgreSQL that the card network was asked for a payment.
func (w *world) unasked(transactionID string) bool {
	t, there := w.transactions[transactionID]
	return w.Live != nil && len(w.Live.Lost) > 0 && t.Reference == "" && (t.Mode.Live() || !there)
}

// lost returns the payouts of lost rows that a transaction of the treasury paid.
func (w *world) lost(hash string) (all []LostPayout) {
	for _, p := range w.Live.Known {
		if w.unasked(p.TransactionID) && slices.Contains(p.Hashes, hash) {
			all = append(all, p)
		}
	}
	return all
}

// forget takes from the facts what only PostgreSQL could confirm, and has lost: requests of deliveries, and
// what clients were told.
func (f *Facts) forget() {
	if f.Live == nil {
		return
	}
	for _, lost := range f.Live.Lost {
		f.Requests = slices.DeleteFunc(f.Requests, func(r devstack.LoggedRequest) bool {
			return !r.Started && lost.meets(r.At, r.At)
		})
		for i, c := range f.Calls {
			if lost.meets(c.At, c.EndedAt) {
				f.Calls[i].Status, f.Calls[i].Told = 0, ""
			}
		}
	}
}

// Span is a time.
type Span struct{ From, To time.Time }

func (s Span) meets(from, to time.Time) bool { return !to.Before(s.From) && from.Before(s.To) }

// OperatorsFreeze is the reason of a freeze by the run's operator.
const OperatorsFreeze = "an operator of the chaos run looks at it"
