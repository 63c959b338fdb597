package invariant

import (
	"cmp"
	"math/big"
	"slices"
	"time"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/webhook"
)

func (w *world) payouts(r *Result) {
	of, told := map[string]int{}, map[string]int{}
	for _, e := range w.Events {
		told[string(e.Type)+" "+e.SubjectID]++
	}
	for _, p := range w.Payouts {
		r.Checked++
		of[p.SessionID]++
		sent, failed := told[string(webhook.PayoutSent)+" "+p.ID], told[string(webhook.PayoutFailed)+" "+p.ID]
		if !p.fits(sent, failed) {
			r.violated(p.ID, "is %s in generation %d with %d transfers, %d payout.sent and %d payout.failed",
				p.Status, p.Generation, p.Transfers, sent, failed)
		}
	}
	for _, s := range w.Sessions {
		if n := of[s.ID]; (n == 1) != (s.Status == checkout.StatusCompleted) || n > 1 {
			r.violated(s.ID, "is %s and has %d payouts", s.Status, n)
		}
	}
}

// fits reports whether the payout's events and transfers fit its state. Each generation before the
// present one failed, and in live mode it may have been sent first: its transfer paid nothing.
func (p Payout) fits(sent, failed int) bool {
	failures, transfers := p.Generation-1, 0
	switch p.Status {
	case checkout.PayoutSent:
		sent, transfers = sent-1, 1
	case checkout.PayoutFailed:
		failures++
	}
	sentBefore := 0
	if p.Mode.Live() {
		sentBefore = failures
	}
	pending := p.Status == checkout.PayoutPending // its transfer may be on the chain already
	return failed == failures && sent >= 0 && sent <= sentBefore && (p.Transfers == transfers || pending)
}

func (w *world) livePayouts(r *Result) {
	paid := w.paid()
	expected := sums{}
	for _, p := range w.Payouts {
		if !p.Mode.Live() {
			continue
		}
		r.Checked++
		want := 0
		if p.Status == checkout.PayoutSent {
			want = 1
			expected.addPayout(r, p.ID, p.Destination, p.Amount, p.Currency)
		}
		if paid[p.ID] != want {
			r.violated(p.ID, "is %s and was paid %d times on the chain", p.Status, paid[p.ID])
		}
	}
	for _, tx := range w.Live.Sent {
		for _, p := range w.lost(tx.TxHash) {
			if !tx.Reverted && paid[p.ID] == 0 {
				paid[p.ID]++
				expected.addPayout(r, p.ID, p.Destination, p.Amount, p.Currency)
			}
		}
	}
	for address, has := range w.Live.Balances {
		for c, units := range has {
			r.Checked++
			if want := expected.of(address + " " + string(c)); units.Cmp(want) != 0 {
				r.violated(address, "has %s of the smallest unit of %s, and its payouts are %s", units, c, want)
			}
		}
	}
}

// lostPaid reports whether a payment whose row is lost was paid out.
func (w *world) lostPaid(transactionID string) bool {
	return slices.ContainsFunc(w.Live.Sent, func(tx SentTransaction) bool {
		return !tx.Reverted && slices.ContainsFunc(w.lost(tx.TxHash), func(p LostPayout) bool {
			return p.TransactionID == transactionID
		})
	})
}

// paid returns how many transactions on the chain paid each payout.
func (w *world) paid() map[string]int {
	paid := map[string]int{}
	for _, tx := range w.Live.Sent {
		for _, id := range w.transferOf[tx.TxHash].Payouts {
			if !tx.Reverted {
				paid[id]++
			}
		}
	}
	return paid
}

// sums are sums of smallest units by what they are of, such as "address USDC".
type sums map[string]*big.Int

func (s sums) of(name string) *big.Int { return cmp.Or(s[name], new(big.Int)) }

func (s sums) add(name string, units *big.Int) { s[name] = new(big.Int).Add(s.of(name), units) }

// addPayout adds a payout to what its destination must have.
func (s sums) addPayout(r *Result, id, destination, decimal string, currency money.PayoutCurrency) {
	amount, err := money.ParseCrypto(decimal, currency)
	if err != nil {
		r.violated(id, "is sent with the amount %q", decimal)
		return
	}
	s.add(destination+" "+string(currency), amount.Units())
}

func (w *world) given(r *Result) {
	paid, back := w.paid(), map[string]bool{}
	for _, c := range w.Live.Charges {
		back[c.TransactionID] = back[c.TransactionID] || c.Paid && c.Refunded == c.Amount
	}
	for _, p := range w.Payouts {
		if !p.Mode.Live() {
			continue
		}
		r.Checked++
		paid := paid[p.ID] > 0 || p.Status == checkout.PayoutSent // 24 compares the two
		switch {
		case p.GivenBack && !back[p.TransactionID]:
			r.violated(p.ID, "was given back, and the card network does not know it")
		case p.GivenBack && paid:
			r.violated(p.ID, "was paid out and given back")
		case !paid && !back[p.TransactionID] && p.Deducted < p.SourceAmount:
			r.violated(p.ID, "was neither paid out, nor given back, nor kept: it is %s", p.Status)
		}
	}
}

func (w *world) burns(r *Result) {
	type try struct{ payoutID, to string }
	reverted := map[try]bool{}
	for _, tx := range w.Live.Sent {
		r.Checked++
		for _, id := range w.transferOf[tx.TxHash].Payouts {
			at := try{id, tx.To}
			if reverted[at] {
				r.violated(id, "was sent to %s again, by %s", tx.To, tx.TxHash)
			}
			reverted[at] = reverted[at] || tx.Reverted
		}
	}
}

// A fault that is not the enemy's may hold all payouts for up to two minutes: a worker that dies while it runs an
// activity, for example. It says little when few payouts are compared.
const (
	faultHold     = 2 * time.Minute
	fewestWaiting = 50 // on each side
)

func (w *world) waits(r *Result) {
	var calm, besieged []time.Duration
	for _, p := range w.Payouts {
		if !p.Mode.Live() || p.MerchantID == w.Live.Hostile || p.Disputed ||
			p.Status != checkout.PayoutSent || p.SentAt == nil ||
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
