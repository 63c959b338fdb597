package sandbox

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
)

// Callbacks are the ways in which the sandbox reports a change. Each may be called more than once for a change. After
// an error other than checkout.ErrNotFound it is called again later.
type Callbacks struct {
	PaymentDecided func(ctx context.Context, sessionID, transactionID string) error
	RefundChanged  func(ctx context.Context, refundID string) error
	ChargeChanged  func(ctx context.Context, reference string) error // by a dispute or a warning of fraud
}

// callbacks is how often the sandbox reports a late decision of a payment. Real networks also report more than once.
const callbacks = 3

const (
	callbackInterval = 500 * time.Millisecond // between two callbacks of a charge
	// callbackPoll is how often RunCallbacks looks for what another process has left.
	callbackPoll = 15 * time.Second
)

// dueSignal has a value when RunCallbacks must look for due decisions.
func (n *CardNetwork) dueSignal() chan struct{} {
	n.once.Do(func() { n.due = make(chan struct{}, 1) })
	return n.due
}

func (n *CardNetwork) signalDueIn(delay time.Duration) {
	time.AfterFunc(delay, func() {
		select {
		case n.dueSignal() <- struct{}{}:
		default: // it looks soon anyway
		}
	})
}

// RunCallbacks decides slow charges when they are due and calls back several times for each, until ctx ends. It also
// opens disputes, and reports each change of one and each later change of a refund. Another process continues where
// this one stopped.
func (n *CardNetwork) RunCallbacks(ctx context.Context, call Callbacks) {
	tick := time.NewTicker(callbackPoll)
	defer tick.Stop()
	for {
		if err := n.callBackDue(ctx, call); err != nil && ctx.Err() == nil {
			slog.WarnContext(ctx, "sandbox callbacks", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-n.dueSignal():
		}
	}
}

// callbackRetry is the delay before a failed callback is tried again.
const callbackRetry = 5 * time.Second

// callBackDue makes the due callbacks. A failed callback, such as one to a session that accepts no
// more signals, is tried again later and blocks no other. It returns errors of PostgreSQL only.
func (n *CardNetwork) callBackDue(ctx context.Context, call Callbacks) error {
	return errors.Join(n.decideDue(ctx, call), n.reportDue(ctx, call))
}

func (n *CardNetwork) decideDue(ctx context.Context, call Callbacks) error {
	due, err := n.Sandbox.DueSandboxCallbacks(ctx)
	if err != nil {
		return err
	}
	for _, c := range due {
		if err := n.decide(ctx, call, c); err != nil {
			return err
		}
	}
	return nil
}

func (n *CardNetwork) decide(ctx context.Context, call Callbacks, c storage.SandboxCharge) error {
	if d, denied := denials[behavior(c.Behavior)]; denied {
		if err := n.deny(ctx, c, d); err != nil {
			return err
		}
		return n.Sandbox.CountSandboxCallback(ctx, c.TransactionID) // reportDue reports it
	}
	_, err := n.Sandbox.DecideSandboxCharge(ctx, c.TransactionID, checkout.OutcomeSucceeded, "")
	if err != nil {
		return err
	}
	if taken(ctx, c.TransactionID, call.PaymentDecided(ctx, c.SessionID, c.TransactionID)) {
		n.signalDueIn(callbackInterval)
		return n.Sandbox.CountSandboxCallback(ctx, c.TransactionID)
	}
	n.signalDueIn(callbackRetry)
	return n.Sandbox.PostponeSandboxCallback(ctx, c.TransactionID, callbackRetry)
}

func (n *CardNetwork) reportDue(ctx context.Context, call Callbacks) error {
	due, err := n.Sandbox.DueSandboxReports(ctx) // of disputes that decideDue opened, too
	if err != nil {
		return err
	}
	for _, r := range due {
		if err := n.report(ctx, call, r); err != nil {
			return err
		}
	}
	return nil
}

func (n *CardNetwork) report(ctx context.Context, call Callbacks, r storage.SandboxReport) error {
	report, subject := call.RefundChanged, r.RefundID
	if r.DisputeID != "" {
		report, subject = call.ChargeChanged, r.Reference
	}
	if taken(ctx, subject, report(ctx, subject)) {
		return n.Sandbox.EndSandboxReport(ctx, r)
	}
	n.signalDueIn(callbackRetry)
	return n.Sandbox.PostponeSandboxReport(ctx, r, callbackRetry)
}

// taken reports whether a callback needs no repeat. checkout.ErrNotFound: what it is about has gone, such as a closed
// session, which this is a duplicate for.
func taken(ctx context.Context, subject string, err error) bool {
	if err == nil || errors.Is(err, checkout.ErrNotFound) {
		return true
	}
	slog.WarnContext(ctx, "sandbox callback not taken", "subject", subject, "error", err)
	return false
}
