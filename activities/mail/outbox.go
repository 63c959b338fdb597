// Package mail sends the mails that PostgreSQL holds: to people who sign in to the dashboard, and receipts to
// customers. No request waits for a mail server, and a crash loses no mail: a mail is sent at least once within a day,
// or the log says that it was not.
package mail

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"example.com/checkout/storage"
	"example.com/checkout/storage/people"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
)

// Outbox sends the mails of all merchants.
type Outbox struct {
	People       *people.Store
	Requests     *storage.Requests
	Sessions     *storage.SessionReader
	Send         func(ctx context.Context, m Message) error // such as SMTP.Send
	DashboardURL string                                     // without a slash at its end
	// Receipt writes the mail to the customer of a completed session.
	Receipt func(session checkout.Session, brand people.Brand, language string) (subject, text string)
}

const (
	interval    = 5 * time.Second
	giveUpEvery = 10 * time.Minute
	sendTimeout = 30 * time.Second
)

// delays are the times between the attempts; the last one repeats until the mail is too old.
var delays = []time.Duration{10 * time.Second, time.Minute, 5 * time.Minute, 30 * time.Minute}

// Run sends what is due until ctx ends. Several processes may run it at the same time.
func (o *Outbox) Run(ctx context.Context) {
	tick, late := time.NewTicker(interval), time.NewTicker(giveUpEvery)
	defer tick.Stop()
	defer late.Stop()
	for do := o.giveUpAndSend; ; {
		if err := do(ctx); err != nil && ctx.Err() == nil {
			slog.WarnContext(ctx, "mails", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			do = o.sendDue
		case <-late.C:
			do = o.giveUpAndSend
		}
	}
}

// giveUpAndSend gives up mails that are too old and sends the due ones. It returns errors of PostgreSQL only.
func (o *Outbox) giveUpAndSend(ctx context.Context) error {
	late, err := o.People.GiveUpMails(ctx)
	if err != nil {
		return err
	}
	for _, id := range late {
		slog.ErrorContext(ctx, "a mail was not sent: the mail server did not take it within a day", "mail", id)
	}
	return o.sendDue(ctx)
}

// sendDue sends what is due. It takes one mail at a time, so that a slow mail server cannot make it hold others until
// another process takes them too. A mail that fails holds up no other. It returns errors of PostgreSQL only.
func (o *Outbox) sendDue(ctx context.Context) error {
	for ctx.Err() == nil {
		mails, err := o.People.DueMails(ctx, 1)
		if err != nil || len(mails) == 0 {
			return err
		}
		if err := o.send(ctx, mails[0]); err != nil {
			return err
		}
	}
	return nil
}

func (o *Outbox) send(ctx context.Context, m merchant.Mail) error {
	message, err := o.prepare(ctx, &m)
	if errors.Is(err, checkout.ErrNotFound) { // the person was removed or has joined, or the customer was erased
		return o.People.MailFailed(ctx, m.ID, 0)
	}
	if err != nil || message == nil {
		return err
	}
	ctx = context.WithoutCancel(ctx) // a stop waits until it is noted who has the mail, or it would be sent twice
	sending, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	if err := o.Send(sending, *message); err != nil {
		delay := delays[min(m.Attempts, len(delays))-1]
		if errors.Is(err, ErrRefused) {
			delay = 0
		}
		slog.WarnContext(ctx, "a mail was not taken by the mail server", "mail", m.ID, "kind", m.Kind,
			"attempt", m.Attempts, "again_in", delay, "error", err)
		return o.People.MailFailed(ctx, m.ID, delay)
	}
	slog.InfoContext(ctx, "mail sent", "mail", m.ID, "kind", m.Kind, "attempt", m.Attempts)
	return o.People.MailSent(ctx, m.ID)
}

// prepare writes a mail, unless there are too many: then it returns nil. It notes in m to whom a receipt goes.
func (o *Outbox) prepare(ctx context.Context, m *merchant.Mail) (*Message, error) {
	kind, write := m.Kind, o.write
	if m.Kind == merchant.MailReceipt {
		session, brand, err := o.receipt(ctx, m)
		if err != nil {
			return nil, err
		}
		if !session.Mode.Live() {
			kind = testReceipt
		}
		write = func(_ context.Context, m merchant.Mail) (*Message, error) {
			subject, text := o.Receipt(session, brand, m.Detail)
			return &Message{To: m.To, Subject: subject, Text: text}, nil
		}
	}
	if m.Kind == merchant.MailDisputeOpened && strings.HasPrefix(m.Page, string(checkout.ModeTest)) {
		kind = testDispute
	}
	if many, err := o.tooMany(ctx, *m, kind); many || err != nil {
		return nil, err
	}
	return write(ctx, *m)
}

// codes store the hashes of the codes in mails. A code is made when its mail is written, so that nothing but its hash
// is stored.
var codes = map[merchant.MailKind]func(*people.Store, context.Context, string, []byte) error{
	merchant.MailPasswordReset: (*people.Store).KeepReset,
	merchant.MailInvitation:    (*people.Store).KeepInvitation,
}

// write makes the text of a mail to a member.
func (o *Outbox) write(ctx context.Context, m merchant.Mail) (*Message, error) {
	code := ""
	if keep := codes[m.Kind]; keep != nil {
		token, hash := merchant.NewToken()
		if err := keep(o.People, ctx, m.MemberID, hash); err != nil {
			return nil, err
		}
		code = token
	}
	message := text(m, o.DashboardURL, code)
	return &message, nil
}

// receipt returns the session of a receipt, and notes its merchant and customer in m.
func (o *Outbox) receipt(ctx context.Context, m *merchant.Mail) (checkout.Session, people.Brand, error) {
	session, brand, err := o.Sessions.CustomerSession(ctx, m.SessionID)
	if err != nil {
		return session, brand, err
	}
	paid := session.Transaction()
	if session.Status != checkout.StatusCompleted || paid == nil || paid.CustomerEmail == nil {
		return session, brand, checkout.ErrNotFound
	}
	m.MerchantID, m.To = session.MerchantID, *paid.CustomerEmail
	return session, brand, nil
}
