package dashboard

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"example.com/checkout/api/dashboard/page"
	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// sessionPage shows one session.
type sessionPage struct {
	checkout.Session
	storage.SessionHistory
	sessionBack
	Payments []checkout.Transaction // in the order of their attempts; a payment in flight is last
	Money    sessionMoney
	Moments  []moment // oldest first
	Pairs    []pair   // metadata in the merchant's order
	Customer string
	Fault    string
	// Refresh is how often the page reloads itself, "" when nothing can change.
	Refresh string
}

// moment is an entry of a session's timeline.
type moment struct {
	At     time.Time
	Status string
	Text   string
	Reason string
}

type pair struct{ Key, Value string }

// showSession serves GET …/sessions/{id}.
func (s *server) showSession(v page.Visit) (page.Answer, error) { return s.sessionPage(v, "") }

// sessionPage shows a session. fault is the reason why the session could not be changed, "" for none.
func (s *server) sessionPage(v page.Visit, fault string) (page.Answer, error) {
	session, err := s.Store.Sessions.Session(v.Context(), v.Owner().Ref(v.ID()))
	if err != nil {
		return page.Answer{}, err
	}

	session.URL = checkout.PageURL(s.CheckoutURL, session.ID)
	p := sessionPage{Session: session, Fault: fault, Customer: customerOf(session), Pairs: metadataPairs(session.Metadata)}
	if p.SessionHistory, err = s.Store.Sessions.SessionHistory(v.Context(), v.Owner().Ref(session.ID)); err != nil {
		return page.Answer{}, err
	}

	if p.sessionBack, err = s.back(v, session); err != nil {
		return page.Answer{}, err
	}

	if p.Money, err = s.money(v, session.ID); err != nil {
		return page.Answer{}, err
	}

	p.Payments = slices.Clone(session.Transactions)
	if p.InFlight != nil &&
		session.Status == checkout.StatusPending { // else the payment was decided between the two queries
		p.Payments = append(p.Payments, *p.InFlight)
	}
	p.Moments = p.moments()
	p.Refresh = p.refresh()

	title := showMoney(session.Amount, session.Currency) + " " + string(session.Status)
	return page.ShowForm(fault, "session", title, p)
}

var sessionExpired = page.Notice("session_expired", "The session has expired. It can no longer be paid.")

// expireSession serves POST …/sessions/{id}/expire.
func (s *server) expireSession(v page.Visit, before checkout.Session) (page.Answer, error) {
	_, err := s.actions.ExpireSession(v.Context(), before, v.By())
	switch {
	case errors.Is(err, checkout.ErrPaymentInFlight):
		return s.sessionPage(v, "A payment of this session is in progress, so it cannot expire now. Check again in a moment.")
	case errors.Is(err, checkout.ErrNotPending):
		return s.sessionPage(v, "The session has already ended, so it cannot expire.")
	}
	return page.GoToAfter(err, v.Path("/sessions/"+before.ID), sessionExpired)
}

// refreshOften is for pages on which something may change at any moment, and refreshLater for what takes longer.
const (
	refreshOften = "every 3s"
	refreshLater = "every 10s"
)

// refresh returns how often the page reloads: often while the session or its payout can change,
// less often while only its refunds and deliveries can.
func (p sessionPage) refresh() string {
	if p.Status == checkout.StatusPending || (p.Payout != nil && p.Payout.Status == checkout.PayoutPending) {
		return refreshOften
	}
	pending := func(r checkout.Refund) bool { return r.Status == checkout.RefundPending }
	if slices.ContainsFunc(p.Refunds, pending) {
		return refreshLater
	}
	for _, e := range p.Events {
		for _, d := range e.Deliveries {
			if d.Status == webhook.DeliveryPending {
				return refreshLater
			}
		}
	}
	return ""
}

// momentTexts are the timeline's texts.
var momentTexts = map[checkout.MomentStatus]string{
	checkout.MomentStatus(checkout.StatusPending):   "Created",
	checkout.MomentStatus(checkout.StatusCompleted): "Paid",
	checkout.MomentStatus(checkout.StatusFailed):    "Failed permanently",
	checkout.MomentStatus(checkout.StatusExpired):   "Expired",
	checkout.MomentPaymentFailed:                    "Payment failed",
	checkout.MomentPayoutPending:                    "Payout begun",
	checkout.MomentPayoutSent:                       "Payout sent",
	checkout.MomentPayoutFailed:                     "Payout failed",
}

// moments returns the session's timeline in words.
func (p sessionPage) moments() []moment {
	var all []moment
	for _, m := range p.Timeline() {
		at, _ := time.Parse(time.RFC3339, m.At) // FormatTime wrote it
		entry := moment{At: at, Status: string(m.Status), Text: momentTexts[m.Status]}
		if m.Reason != nil {
			entry.Reason = failureText(*m.Reason)
		}
		all = append(all, entry)
	}
	if p.Status == checkout.StatusPending && p.InFlight != nil {
		all = append(all, moment{At: p.InFlight.CreatedAt, Status: "pending", Text: "Payment in progress"})
	}
	for _, r := range p.Refunds {
		all = append(all, moment{At: r.CreatedAt, Status: "refund", Text: "Refund of " + showMoney(r.Amount, r.Currency)})
	}
	for _, d := range p.Disputes {
		all = append(all, moment{At: d.CreatedAt, Status: "failed", Text: "Dispute of " + showMoney(d.Amount, d.Currency)})
	}
	slices.SortStableFunc(all, func(a, b moment) int { return a.At.Compare(b.At) })
	return all
}

// failureTexts are for merchants. FailureCode.Message is for customers.
var failureTexts = map[checkout.FailureCode]string{
	checkout.FailureCardDeclined:      "Declined by the card's bank",
	checkout.FailureInsufficientFunds: "Insufficient funds",
	checkout.FailureExpiredCard:       "The card has expired",
	checkout.FailureIncorrectCVC:      "Wrong security code",
	checkout.FailureFraudBlocked:      "Blocked as fraud",
	checkout.FailureThreeDSFailed:     "3-D Secure: not confirmed by the bank",
	checkout.FailureThreeDSAbandoned:  "3-D Secure: abandoned by the customer",
	checkout.FailureProcessingError:   "The card network could not process it",
}

// failureText returns the failure of a payment or a payout in words.
func failureText(code string) string {
	if text := failureTexts[checkout.FailureCode(code)]; text != "" {
		return text
	}
	if text := checkout.PayoutFailure(code).Message(); text != "" {
		return text
	}
	return strings.ReplaceAll(code, "_", " ")
}

// Failure returns the reason of a failed payment in words.
func (sessionPage) Failure(t checkout.Transaction) string { return failureText(string(t.Failure)) }

// State returns the state of a delivery in the word of the log.
func (sessionPage) State(d webhook.Delivery) string {
	var last webhook.Attempt
	if n := len(d.Attempts); n > 0 {
		last = d.Attempts[n-1]
	}
	return deliveryState(d, last)
}

// Waiting reports whether the session can still be paid or expire.
func (p sessionPage) Waiting() bool { return p.Status == checkout.StatusPending && p.InFlight == nil }

// Refundable reports whether something of the payment can be refunded.
func (p sessionPage) Refundable() bool { return p.left(p.Session) > 0 }

// metadataPairs returns metadata in the merchant's order.
func metadataPairs(metadata json.RawMessage) []pair {
	var pairs []pair
	d := json.NewDecoder(bytes.NewReader(metadata))
	if _, err := d.Token(); err != nil { // {
		return nil
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return pairs
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return pairs
		}
		pairs = append(pairs, pair{fmt.Sprint(key), metadataText(value)})
	}
	return pairs
}
