// Package mail sends the mails that PostgreSQL holds: to people who sign in to the dashboard, and receipts to
// customers. No request
// waits for a mail server, and a crash loses no mail: a mail is sent at least once within a day, or the log
// says that it was not.
package mail

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"example.com/checkout/storage"
	"example.com/checkout/storage/account"
	"example.com/checkout/workflows/checkout"
)

// Outbox sends the mails of all merchants.
type Outbox struct {
	Store        *storage.Store
	Send         func(ctx context.Context, m Message) error // such as SMTP.Send
	DashboardURL string                                     // without a slash at its end
	// Receipt writes the mail to the customer of a completed session.
	Receipt func(session checkout.Session, brand account.Brand, language string) (subject, text string)
}

const (
	interval    = 2 * time.Second
	sendTimeout = 30 * time.Second
)

// delays are the times between the attempts; the last one repeats until the mail is too old.
var delays = []time.Duration{10 * time.Second, time.Minute, 5 * time.Minute, 30 * time.Minute}

// Run sends what is due until ctx ends. Several processes may run it at the same time.
func (o *Outbox) Run(ctx context.Context) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		if err := o.sendDue(ctx); err != nil && ctx.Err() == nil {
			slog.WarnContext(ctx, "mails", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// sendDue sends what is due. It takes one mail at a time, so that a slow mail server cannot make it hold
// others until another process takes them too. A mail that fails holds up no other. It returns errors of
// PostgreSQL only.
func (o *Outbox) sendDue(ctx context.Context) error {
	late, err := o.Store.GiveUpMails(ctx)
	if err != nil {
		return err
	}
	for _, id := range late {
		slog.ErrorContext(ctx, "a mail was not sent: the mail server did not take it within a day", "mail", id)
	}
	for ctx.Err() == nil {
		mails, err := o.Store.DueMails(ctx, 1)
		if err != nil || len(mails) == 0 {
			return err
		}
		if err := o.send(ctx, mails[0]); err != nil {
			return err
		}
	}
	return nil
}

func (o *Outbox) send(ctx context.Context, m checkout.Mail) error {
	message, err := o.write(ctx, m)
	if errors.Is(err, checkout.ErrNotFound) { // the person was removed, or the customer erased
		return o.Store.MailFailed(ctx, m.ID, 0)
	}
	if err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx) // a stop waits until it is noted who has the mail, or it would be sent twice
	sending, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	if err := o.Send(sending, message); err != nil {
		delay := delays[min(m.Attempts, len(delays))-1]
		if errors.Is(err, ErrRefused) {
			delay = 0
		}
		slog.WarnContext(ctx, "a mail was not taken by the mail server", "mail", m.ID, "kind", m.Kind,
			"attempt", m.Attempts, "again_in", delay, "error", err)
		return o.Store.MailFailed(ctx, m.ID, delay)
	}
	slog.InfoContext(ctx, "mail sent", "mail", m.ID, "kind", m.Kind, "attempt", m.Attempts)
	return o.Store.MailSent(ctx, m.ID)
}

// write makes the text of a mail. The code of a new password is made here, so that nothing but its hash is
// stored.
func (o *Outbox) write(ctx context.Context, m checkout.Mail) (Message, error) {
	if m.Kind == checkout.MailReceipt {
		return o.receipt(ctx, m)
	}
	code := ""
	if m.Kind == checkout.MailPasswordReset {
		token, hash := checkout.NewToken()
		if err := o.Store.KeepReset(ctx, m.MemberID, hash); err != nil {
			return Message{}, err
		}
		code = token
	}
	return text(m, o.DashboardURL, code), nil
}

func (o *Outbox) receipt(ctx context.Context, m checkout.Mail) (Message, error) {
	session, brand, err := o.Store.CustomerSession(ctx, m.SessionID)
	if err != nil {
		return Message{}, err
	}
	paid := session.Transaction()
	if session.Status != checkout.StatusCompleted || paid == nil || paid.CustomerEmail == nil {
		return Message{}, checkout.ErrNotFound
	}
	subject, text := o.Receipt(session, brand, m.Detail)
	return Message{To: *paid.CustomerEmail, Subject: subject, Text: text}, nil
}
