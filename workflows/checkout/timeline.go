package checkout

import (
	"cmp"
	"slices"
	"time"
)

// Moment is one step in the life of a session. Source: api/decisions/sessions.md, "timeline".
type Moment struct {
	Status        MomentStatus `json:"status"`
	At            string       `json:"at"`
	TransactionID *string      `json:"transaction_id"` // of a payment
	PayoutID      *string      `json:"payout_id"`      // of a payout
	Reason        *string      `json:"reason"`         // failure code of a payment or payout
}

// MomentStatus names the step: a status of the session, or of one of its payments.
type MomentStatus string

// Steps besides the session's own statuses.
const (
	MomentPaymentFailed MomentStatus = "payment_failed"
	MomentPayoutPending MomentStatus = "payout_pending"
	MomentPayoutSent    MomentStatus = "payout_sent"
	MomentPayoutFailed  MomentStatus = "payout_failed"
)

// moment is a Moment with its time, for sorting.
type moment struct {
	at time.Time
	Moment
}

// moments returns the steps of one generation of the payout. It may be sent and fail afterwards: a
// transfer that a network took may pay nothing.
func (p *Payout) moments(begun time.Time, sentAt, failedAt *time.Time, why PayoutFailure) []moment {
	all := []moment{{begun, Moment{Status: MomentPayoutPending, PayoutID: &p.ID}}}
	if sentAt != nil {
		all = append(all, moment{*sentAt, Moment{Status: MomentPayoutSent, PayoutID: &p.ID}})
	}
	if failedAt != nil {
		all = append(all, moment{*failedAt, Moment{Status: MomentPayoutFailed, PayoutID: &p.ID, Reason: orNull(string(why))}})
	}
	return all
}

// Timeline returns the steps of the session so far, oldest first.
func (s Session) Timeline() []Moment {
	all := []moment{{s.CreatedAt, Moment{Status: MomentStatus(StatusPending)}}}
	for _, t := range s.Transactions {
		if t.Failure != "" && t.CompletedAt != nil {
			all = append(all, moment{*t.CompletedAt,
				Moment{Status: MomentPaymentFailed, TransactionID: &t.ID, Reason: orNull(string(t.Failure))}})
		}
	}
	switch {
	case s.EndedAt != nil:
		m := Moment{Status: MomentStatus(s.Status)}
		if t := s.Transaction(); t != nil && s.Status != StatusExpired {
			m.TransactionID, m.Reason = &t.ID, orNull(string(t.Failure))
		}

		all = append(all, moment{*s.EndedAt, m})
	case s.Status == StatusExpired: // expired by the clock; the workflow has not stored the end yet
		all = append(all, moment{s.ExpiresAt, Moment{Status: MomentStatus(StatusExpired)}})
	}

	if p := s.Payout; p != nil {
		begun := p.CreatedAt
		for _, r := range p.Retried {
			all = append(all, p.moments(begun, r.SentAt, &r.FailedAt, r.Failure)...)
			begun = r.RetriedAt
		}
		all = append(all, p.moments(begun, p.SentAt, p.FailedAt, p.Failure)...)
	}

	slices.SortStableFunc(all,
		func(a, b moment) int { return cmp.Compare(a.at.UnixMilli(), b.at.UnixMilli()) })
	moments := make([]Moment, len(all))
	for i, m := range all {
		m.At = FormatTime(m.at)
		moments[i] = m.Moment
	}
	return moments
}
