package activities

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
	"golang.org/x/sync/errgroup"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/contract"
)

// Restarts is the progress of RestartOrphans: the activity's input and result.
type Restarts struct {
	Restarted int `json:"restarted"`        // runs
	Failed    int `json:"failed,omitempty"` // rows left to the next Reconcile

	// More means that rows are left.
	More bool `json:"more,omitempty"`
	// Sessions is up to where all pending sessions were looked at, nil before that began.
	Sessions *storage.SessionCursor `json:"sessions,omitempty"`
	// SessionsDone says that no further session is looked at before it is overdue.
	SessionsDone bool `json:"sessions_done,omitempty"`
	// Overdue is up to which id overdue rows were looked at. They come after the sessions.
	Overdue string `json:"overdue,omitempty"`
}

// How RestartOrphans treats Temporal. A few calls at the same time slow down together with Temporal, so
// merchants and customers still get their turn.
const (
	restartRound  = 30 * time.Second // then the workflow tells how far it is, and wakes deliveries
	restartCalls  = 16               // at the same time
	restartPage   = 500
	sessionSample = 50
)

// RestartOrphans starts the runs of rows that should have one and have none: the run was terminated, or never started,
// or Temporal has lost it. It looks at three lists:
//
//   - Temporal's own list of terminated runs finds these at once, if it answers.
//   - A random sample of the pending sessions. When one of them has no run, Temporal has lost data: then
//     all pending sessions, those that expire first at the beginning. So a session that has nothing to do
//     before its hour is over has a run again, too.
//   - Overdue rows, all of them.
//
// Its first round begins with three other steps. Payout addresses whose announced time has come take effect, so that
// the deliveries of their events are found here once they are overdue. Reserves are released, and available balances
// get a payout. Registrations that fail are marked or put on hold.
//
// It returns after restartRound. The next call goes on from the result, and a further try from the last heartbeat.
func (h *Housekeeping) RestartOrphans(ctx context.Context, done Restarts) (Restarts, error) {
	if activity.HasHeartbeatDetails(ctx) { // of an earlier try
		if err := activity.GetHeartbeatDetails(ctx, &done); err != nil {
			return done, asFinal(ctx, err, "")
		}
	}
	r := &restarter{Housekeeping: h, done: done}
	err := r.round(ctx, time.Now().Add(restartRound))
	return r.done, asFinal(ctx, err, "")
}

// restarter is one round of RestartOrphans.
type restarter struct {
	*Housekeeping

	done   Restarts
	failed failures
	mu     sync.Mutex // guards done and failed during each
}

func (r *restarter) round(ctx context.Context, until time.Time) error {
	if !r.done.More {
		countReconciled(ctx, "restarted", 0) // so that the metric is there before the first one
		r.applyDueAddresses(ctx)
		if r.Balances != nil {
			r.Balances.pay(ctx)
		}
		r.judgeEndpoints(ctx)
		if err := r.begin(ctx); err != nil {
			return err
		}
	}
	for r.done.More {
		next := r.overdue
		if !r.done.SessionsDone {
			next = r.sessions
		}
		if err := next(ctx); err != nil {
			return err
		}
		activity.RecordHeartbeat(ctx, r.done)
		if time.Now().After(until) {
			return nil
		}
	}
	return nil
}

// applyDueAddresses lets payout addresses take effect whose announced time has come.
func (h *Housekeeping) applyDueAddresses(ctx context.Context) {
	if _, err := h.Merchants.ApplyDueAddresses(ctx, housekeepingPage); err != nil {
		logger(ctx).ErrorContext(ctx, "payout addresses left to the next Reconcile", "error", err)
	}
}

// begin restarts the terminated runs in Temporal's list, and takes the sample of the pending sessions. When
// the list fails, these runs start once they are overdue.
func (r *restarter) begin(ctx context.Context) error {
	ids, err := r.Runs.Terminated(ctx, terminatedWithin)
	if err != nil {
		logger(ctx).ErrorContext(ctx, "terminated runs not listed: they start again when they are overdue", "error", err)
	}
	if len(ids) > 0 {
		rows, err := r.Installation.Unfinished(ctx, ids)
		if err != nil {
			return err
		}
		if err := r.restartLost(ctx, rows); err != nil {
			return err
		}
	}

	sample, err := r.Installation.SomePendingSessions(ctx, sessionSample)
	if err != nil {
		return err
	}
	lost, err := r.lost(ctx, sample)
	if err != nil {
		return err
	}
	r.done.More, r.done.SessionsDone = true, len(lost) == 0
	if len(lost) > 0 {
		logger(ctx).WarnContext(ctx, "pending sessions have no run: all of them are looked at",
			"sample", len(sample), "lost", len(lost))
	}
	return nil
}

// sessions restarts the next page of pending sessions.
func (r *restarter) sessions(ctx context.Context) error {
	var after storage.SessionCursor
	if r.done.Sessions != nil {
		after = *r.done.Sessions
	}
	rows, err := r.Installation.PendingSessions(ctx, after, restartPage)
	if err != nil {
		return err
	}
	if err := r.restart(ctx, rows); err != nil {
		return err
	}
	if r.done.SessionsDone = len(rows) < restartPage; !r.done.SessionsDone {
		last := rows[len(rows)-1]
		r.done.Sessions = &storage.SessionCursor{ExpiresAt: last.ExpiresAt, ID: last.ID}
	}
	return nil
}

// overdue restarts the lost runs of the next page of overdue rows.
func (r *restarter) overdue(ctx context.Context) error {
	rows, err := r.Installation.Overdue(ctx, OverdueMargin, r.done.Overdue, restartPage)
	if err != nil {
		return err
	}
	if err := r.restartLost(ctx, rows); err != nil {
		return err
	}
	if r.done.More = len(rows) == restartPage; r.done.More {
		r.done.Overdue = rows[len(rows)-1].ID
	}
	return nil
}

// restartLost restarts the rows that have no open run. Most rows have one, and asking is cheaper than
// a start that Temporal refuses.
func (r *restarter) restartLost(ctx context.Context, rows []storage.Overdue) error {
	lost, err := r.lost(ctx, rows)
	if err != nil {
		return err
	}
	return r.restart(ctx, lost)
}

// lost returns the rows without an open run.
func (r *restarter) lost(ctx context.Context, rows []storage.Overdue) ([]storage.Overdue, error) {
	return r.each(ctx, rows, func(ctx context.Context, row storage.Overdue) (bool, error) {
		open, err := r.Runs.Open(ctx, row.ID)
		return !open, err
	})
}

// restart starts the runs of the rows. Temporal refuses a first start when it knows any run of the id, so
// a run that has ended since the row was read is not repeated. The few rows that it refused have an open
// run, or a closed one that left its row unfinished. The latter are read again before a second start,
// because a run may have ended its row in the meantime.
func (r *restarter) restart(ctx context.Context, rows []storage.Overdue) error {
	known, err := r.start(ctx, rows, false)
	if err != nil || len(known) == 0 {
		return err
	}
	closed, err := r.lost(ctx, known)
	if err != nil || len(closed) == 0 {
		return err
	}
	ids := make([]string, 0, len(closed))
	for _, row := range closed {
		ids = append(ids, row.ID)
	}
	unfinished, err := r.Installation.Unfinished(ctx, ids)
	if err != nil {
		return err
	}
	_, err = r.start(ctx, unfinished, true)
	return err
}

// start starts the runs of the rows and returns the rows that Temporal refused.
func (r *restarter) start(ctx context.Context, rows []storage.Overdue, again bool) ([]storage.Overdue, error) {
	return r.each(ctx, rows, func(ctx context.Context, row storage.Overdue) (bool, error) {
		started, err := r.Runs.StartRun(ctx, contract.RunRequest(row), again)
		if started {
			r.countRestarted(ctx, row.ID)
		}
		return !started, err
	})
}

// countRestarted counts a run that was started.
func (r *restarter) countRestarted(ctx context.Context, id string) {
	countReconciled(ctx, "restarted", 1)
	logger(ctx).WarnContext(ctx, "no run: started again", "id", id)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done.Restarted++
}

// each calls ask for every row, some at the same time, and returns the rows for which it is true. The failure of one
// row leaves it to the next Reconcile; after too many failures it returns an error.
func (r *restarter) each(
	ctx context.Context, rows []storage.Overdue, ask func(context.Context, storage.Overdue) (bool, error),
) (chosen []storage.Overdue, err error) {
	group, within := errgroup.WithContext(ctx)
	group.SetLimit(restartCalls)
	for _, row := range rows {
		if within.Err() != nil {
			break // the group or ctx has the reason
		}
		group.Go(func() error {
			yes, err := ask(within, row)
			r.mu.Lock()
			defer r.mu.Unlock()
			activity.RecordHeartbeat(ctx, r.done)
			if err != nil {
				r.done.Failed++
			} else if yes {
				chosen = append(chosen, row)
			}
			return r.failed.pass(ctx, row.ID, err)
		})
	}
	if err := group.Wait(); err != nil {
		return nil, fmt.Errorf("start missing runs: %w", err)
	}
	return chosen, ctx.Err()
}
