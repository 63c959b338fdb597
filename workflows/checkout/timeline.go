package checkout

import (
	"cmp"
	"slices"
	"time"
)

// Moment is one thing that happened to a session. Source: api/decisions.md,
// "timeline".
type Moment struct {
	Status        MomentStatus `json:"status"`
	At            string       `json:"at"`
	TransactionID *string      `json:"transaction_id"` // of a payment
	PayoutID      *string      `json:"payout_id"`      // of a payout
	Reason        *string      `json:"reason"`         // why something failed: the code of its failure
}

// MomentStatus says what happened: a status of the session, or of its payments.
type MomentStatus string

// What happens to a session besides its own status.
const (
	MomentPaymentFailed MomentStatus = "payment_failed"
	MomentPayoutPending MomentStatus = "payout_pending"
	MomentPayoutSent    MomentStatus = "payout_sent"
	MomentPayoutFailed  MomentStatus = "payout_failed"
)

// Timeline returns what happened to the session so far, oldest first.
func (s Session) Timeline() []Moment {
	type moment struct {
		at time.Time
		Moment
	}
	all := []moment{{s.CreatedAt, Moment{Status: MomentStatus(StatusPending)}}}
	for _, t := range s.Transactions {
		if t.Failure != "" && t.CompletedAt != nil {
			all = append(all, moment{*t.CompletedAt, Moment{Status: MomentPaymentFailed, TransactionID: &t.ID, Reason: orNull(string(t.Failure))}})
		}
	}
	switch {
	case s.EndedAt != nil:
		m := Moment{Status: MomentStatus(s.Status)}
		if t := s.Transaction(); t != nil && s.Status != StatusExpired {
			m.TransactionID, m.Reason = &t.ID, orNull(string(t.Failure))
		}
		all = append(all, moment{*s.EndedAt, m})
	case s.Status == StatusExpired: // by the clock; its workflow has not written it yet
		all = append(all, moment{s.ExpiresAt, Moment{Status: MomentStatus(StatusExpired)}})
	}
	if p := s.Payout; p != nil {
		all = append(all, moment{p.CreatedAt, Moment{Status: MomentPayoutPending, PayoutID: &p.ID}})
		switch {
		case p.SentAt != nil:
			all = append(all, moment{*p.SentAt, Moment{Status: MomentPayoutSent, PayoutID: &p.ID}})
		case p.FailedAt != nil:
			all = append(all, moment{*p.FailedAt, Moment{Status: MomentPayoutFailed, PayoutID: &p.ID, Reason: orNull(string(p.Failure))}})
		}
	}
	slices.SortStableFunc(all, func(a, b moment) int { return cmp.Compare(a.at.UnixMilli(), b.at.UnixMilli()) })
	moments := make([]Moment, len(all))
	for i, m := range all {
		m.At = FormatTime(m.at)
		moments[i] = m.Moment
	}
	return moments
}
