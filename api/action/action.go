// Package action holds each change that the REST API, the dashboard and the command line make to a merchant's
// objects: its check, its entry in the audit log, and its message to Temporal. The callers parse and render.
// An action first changes storage, then informs Temporal. If Temporal does not answer, Reconcile
// does that step later.
package action

import (
	"context"
	"time"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/runs"
)

// Store is what the actions read and write.
type Store struct {
	AuditLog  *storage.AuditLog
	Customers *storage.Customers
	Disputes  *storage.Disputes
	Merchants *storage.Merchants
	Payouts   *storage.Payouts
	Refunds   *storage.Refunds
	Sessions  *storage.SessionReader
	Webhooks  *storage.Webhooks
}

// StoreOf returns the part of a store that this package reads and writes.
func StoreOf(s *storage.Store) Store {
	return Store{
		AuditLog:  s.AuditLog,
		Customers: s.Customers,
		Disputes:  s.Disputes,
		Merchants: s.Merchants,
		Payouts:   s.Payouts,
		Refunds:   s.Refunds,
		Sessions:  s.Sessions.SessionReader,
		Webhooks:  s.Webhooks,
	}
}

// Actions changes objects of merchants. The audit log has an entry for each
// change. The transaction of the change writes it. If a workflow makes the change, the entry is
// written before the workflow is asked, so that no change is without an entry.
type Actions struct {
	Store Store
	Runs  *runs.Client
	// LeftToReconcile receives an error of a step that Reconcile repeats within a minute. With nil the errors are dropped.
	LeftToReconcile func(ctx context.Context, err error)
}

// reconcileTimeout bounds the wait for starting Reconcile.
const reconcileTimeout = 500 * time.Millisecond

// reconcile starts Reconcile now, so that it follows a change at once.
func (a Actions) reconcile(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, reconcileTimeout)
	defer cancel()
	a.logLeftover(ctx, a.Runs.ReconcileNow(ctx))
}

func (a Actions) logLeftover(ctx context.Context, err error) {
	if err != nil && a.LeftToReconcile != nil {
		a.LeftToReconcile(ctx, err)
	}
}

// SettleTimeout is how long an answer waits until the workflow has written its row.
const SettleTimeout = 2 * time.Second

// awaitSettled calls done until it returns true or an error, for SettleTimeout at most. The short wait
// lets the answer show the requested change.
func awaitSettled(ctx context.Context, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, SettleTimeout)
	defer cancel()
	for wait := 20 * time.Millisecond; ; wait = min(2*wait, 200*time.Millisecond) {
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}
