package dashboard

import (
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"time"

	"example.com/checkout/api/dashboard/login"
	"example.com/checkout/api/dashboard/page"
	"example.com/checkout/storage"
	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
)

// sessionBack is what of a session's payment went back to the customer.
type sessionBack struct {
	Refunds  []checkout.Refund  // newest first
	Disputes []checkout.Dispute // newest first
}

// maxBack is how many refunds and disputes of a session its page shows at most.
const maxBack = 100

func (s *server) back(v page.Visit, session checkout.Session) (b sessionBack, err error) {
	if len(session.Transactions) == 0 {
		return b, nil
	}
	all := pg.Page{Limit: maxBack}
	b.Refunds, err = s.Store.Refunds.Refunds(v.Context(), v.Owner(), storage.RefundFilter{SessionID: session.ID}, all)
	if err != nil {
		return b, err
	}
	b.Disputes, err = s.Store.Disputes.Disputes(v.Context(), v.Owner(), storage.DisputeFilter{SessionID: session.ID}, all)
	return b, err
}

// refunded adds up the refunds that have not failed, without the one with the id except.
func (b sessionBack) refunded(except string) (sum money.Amount) {
	for _, r := range b.Refunds {
		if r.Status != checkout.RefundFailed && r.ID != except {
			sum += r.Amount
		}
	}
	return sum
}

// left returns what the merchant can still refund of a paid session, as far as this service knows.
func (b sessionBack) left(session checkout.Session) money.Amount {
	if session.Status != checkout.StatusCompleted {
		return 0
	}
	left := session.Amount - b.refunded("")
	for _, d := range b.Disputes {
		if d.Status != checkout.DisputeWarning && d.Status != checkout.DisputeWon {
			left -= d.Amount
		}
	}
	return max(left, 0)
}

// refundPage has the form for a refund of a session.
type refundPage struct {
	checkout.Session
	sessionBack
	Left   money.Amount
	Typed  string // amount
	Reason checkout.RefundReason
	Once   string // see refundID
	Fault  string
}

const refundTitle = "Refund a payment"

func (s *server) refundPage(v page.Visit, session checkout.Session) (p refundPage, err error) {
	p = refundPage{Session: session, Once: hex.EncodeToString(checkout.NewSeed())}
	p.sessionBack, err = s.back(v, session)
	p.Left = p.left(session)
	p.Typed = p.Left.String()
	return p, err
}

// showRefund serves GET …/sessions/{id}/refund.
func (s *server) showRefund(v page.Visit, session checkout.Session) (page.Answer, error) {
	p, err := s.refundPage(v, session)
	return page.ShowAfter(err, "refund", refundTitle, p)
}

// formLifetime is how old a refund's form may be. Lists find a refund by the time in its id, which must be close to
// that of its row: see checkout.ClockSkew.
const formLifetime = checkout.ClockSkew / 2

// refundID returns the id of the refund that a form orders: a form that is sent twice refunds once. It returns false
// when the form is too old.
func refundID(sessionID, once string) (id string, fresh bool) {
	seed, err := hex.DecodeString(once)
	if err != nil || len(seed) < 16 {
		return "", false
	}
	id = checkout.SeededID(checkout.PrefixRefund, append(seed, sessionID...))
	made, _ := checkout.IDTime(checkout.PrefixRefund, id)
	return id, time.Since(made).Abs() < formLifetime
}

// unprovedRefund is how much of a payment can be refunded without a proof of who asks, in minor units of each currency.
const unprovedRefund money.Amount = 100_00

var refundOrdered = page.Notice("refund_ordered", "The refund is on its way to the card network.")

// refundSession serves POST …/sessions/{id}/refund.
func (s *server) refundSession(v page.Visit, session checkout.Session) (page.Answer, error) {
	p, err := s.refundPage(v, session)
	if err != nil {
		return page.Answer{}, err
	}
	o, fault := p.read(v)
	if fault != "" {
		return p.refuse(fault)
	}
	if o.Amount+p.refunded(o.ID) > unprovedRefund {
		unconfirmed, err := s.login.RequireProof(v, login.ConfirmPage{
			Text:   showMoney(o.Amount, session.Currency) + " go back to the customer. You cannot take a refund back.",
			Button: "Refund " + showMoney(o.Amount, session.Currency), Back: v.Path("/sessions/" + session.ID + "/refund"),
			Grave: v.Mode.Live(),
		})
		if unconfirmed != nil || err != nil {
			return page.OrNone(unconfirmed), err
		}
	}
	got, err := s.actions.RefundSession(v.Context(), o, v.By())
	if fault := refundFault(err); fault != "" {
		return p.refuse(fault)
	}
	if err == nil && got.Amount != o.Amount {
		return p.refuse("This form has already refunded " + showMoney(got.Amount, got.Currency) +
			". Check whether you want another refund.")
	}
	return page.GoToAfter(err, v.Path("/sessions/"+session.ID), refundOrdered)
}

// read reads the form. It returns a fault, "" for none.
func (p *refundPage) read(v page.Visit) (o storage.RefundOrder, fault string) {
	p.Typed = strings.TrimSpace(v.PostFormValue("amount"))
	p.Reason = checkout.RefundReason(v.PostFormValue("reason"))
	o = storage.RefundOrder{Session: p.Ref, Reason: p.Reason}
	var err error
	if o.Amount, err = money.ParsePart(p.Typed); err != nil {
		return o, "Enter an amount such as 12.50."
	}
	if !slices.Contains(checkout.RefundReasons, p.Reason) {
		return o, "Choose a reason from the list."
	}
	var fresh bool
	if o.ID, fresh = refundID(p.ID, v.PostFormValue("once")); !fresh {
		return o, "The form was open for too long. Nothing was refunded. Check it and send it again."
	}
	return o, ""
}

func (p *refundPage) refuse(fault string) (page.Answer, error) {
	p.Fault = fault
	return page.Refuse("refund", refundTitle, p)
}

// refundFault returns in words why a payment is not refunded, "" for another error and for none.
func refundFault(err error) string {
	large, tooLarge := errors.AsType[*checkout.RefundTooLargeError](err)
	lacks, insufficient := errors.AsType[*checkout.InsufficientBalanceError](err)
	switch {
	case errors.Is(err, checkout.ErrNotPaid):
		return "The session is not paid, so nothing can be refunded."
	case errors.Is(err, checkout.ErrDisputeOpen):
		return "A dispute of the payment is open. The card network refunds nothing until it ends."
	case errors.Is(err, checkout.ErrRefundPending):
		return "Another refund of the payment is under way. Wait until it succeeds or fails."
	case tooLarge && large.Left == 0:
		return "Nothing is left of the payment to refund."
	case tooLarge:
		return "Only " + showMoney(large.Left, large.Currency) + " are left of the payment."
	case insufficient:
		return "Your balance lacks " + showMoney(lacks.Missing, lacks.Currency) + " for this refund. " +
			"Try again when later payments have raised it."
	}
	return ""
}
