// Package listen forwards a merchant's test-mode events to a server on the developer's computer. It
// signs them as deliveries are signed, and catches up on the events that it missed while it did not
// run. It uses only the REST API.
package listen

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"example.com/checkout/workflows/checkout"
)

// Run forwards events until ctx ends, and then returns nil. While the API is away, it waits. It
// returns an error when it cannot go on: the API refuses the key, or the state file is in use,
// malformed or not writable.
func Run(ctx context.Context, o Options) error {
	if err := o.Check(); err != nil {
		return err
	}
	l, err := newListener(o)
	if err != nil {
		return err
	}
	defer l.state.close()
	return l.run(ctx)
}

// listener is the state of Run. Only one goroutine uses it.
type listener struct {
	Options
	api    *client
	local  *local
	state  *stateFile
	report *reporter
	pause  func(ctx context.Context, d time.Duration) error // returns ctx's error when ctx ends
}

func newListener(o Options) (*listener, error) {
	state, err := openState(o.StateFile)
	if err != nil {
		return nil, err
	}
	r := &reporter{out: o.Out, json: o.JSON}
	return &listener{
		Options: o, state: state, report: r, pause: pause,
		api:   newClient(o.APIURL, o.APIKey, r),
		local: newLocal(o.ForwardTo, state.Secret),
	}, nil
}

// How often listen asks the API, and how many events it holds at once.
const (
	pollInterval = time.Second
	pageLimit    = 100
)

// retryWaits are the waits between the attempts for one event. They are shorter than the delays of
// deliveries, because a developer is watching.
var retryWaits = []time.Duration{time.Second, 2 * time.Second, 5 * time.Second}

// awayWait is the time between tries while the local server does not run.
const awayWait = time.Second

func (l *listener) run(ctx context.Context) error {
	l.report.ready(l.Options, l.state)
	err := l.follow(ctx)
	l.report.end()
	if errors.Is(err, ctx.Err()) { // listen was stopped
		return nil
	}
	return err
}

// follow forwards the events that the state does not know yet, until ctx ends.
func (l *listener) follow(ctx context.Context) error {
	resumed := !l.state.Began.IsZero() && l.Since.IsZero()
	if err := l.begin(ctx); err != nil {
		return err
	}

	catchingUp := resumed || !l.Since.IsZero()
	for {
		found, err := l.look(ctx)
		if err != nil {
			return err
		}
		more := found.NextCursor != ""
		if catchingUp {
			l.report.catchUp(len(l.chosen(found.Data)), more, resumed)
			catchingUp = false
		}
		if err := l.forwardAll(ctx, found.Data); err != nil {
			return err
		}
		if more {
			continue
		}
		if err := l.pause(ctx, jitter(pollInterval)); err != nil {
			return err
		}
	}
}

// begin decides where to begin: at Since, at the state's position, or now. "Now" means after the
// newest visible event. The service's ids decide, not this computer's clock.
func (l *listener) begin(ctx context.Context) error {
	switch {
	case !l.Since.IsZero():
		l.state.startAt(l.Since)
	case !l.state.Began.IsZero():
		if l.state.After != "" {
			return nil
		}
		return l.seek(ctx)
	default:
		l.state.startAt(time.Time{})
		for p := (page{}); ; {
			var err error
			if p, err = l.api.newest(ctx, p.NextCursor, pageLimit); err != nil {
				return err
			}
			for _, e := range p.Data {
				l.state.settle(e.ID)
			}
			if p.NextCursor == "" || p.NextCursor < l.state.horizon() {
				break
			}
		}
	}

	if err := l.seek(ctx); err != nil {
		return err
	}
	l.state.Began = time.Now().UTC()
	if err := l.state.save(); err != nil {
		return err
	}

	if l.Since.IsZero() {
		l.report.notice("first run: events from now on (--since 10m would send older ones too)")
	}
	return nil
}

// seek finds a place in the feed behind which all events come that are not settled: the newest event before the
// horizon. Some settled events come behind it too.
func (l *listener) seek(ctx context.Context) error {
	l.state.After, l.state.Floor = "", l.state.horizon()
	if l.state.Floor == "" {
		return nil
	}
	p, err := l.api.newest(ctx, l.state.Floor, 1)
	if err != nil {
		return err
	}
	if len(p.Data) > 0 {
		l.state.After = p.Data[0].ID
	}
	return nil
}

// look reads the next page of the feed. The service removes old events, so the last one that listen has read may be
// gone.
func (l *listener) look(ctx context.Context) (page, error) {
	found, err := l.api.feed(ctx, l.state.After)
	if !errors.Is(err, errPositionGone) {
		return found, err
	}
	if err := l.seek(ctx); err != nil {
		return page{}, err
	}
	return l.api.feed(ctx, l.state.After)
}

// chosen returns the events to forward.
func (l *listener) chosen(events []event) []event {
	var chosen []event
	for _, e := range events {
		if l.wants(e) {
			chosen = append(chosen, e)
		}
	}
	return chosen
}

func (l *listener) wants(e event) bool {
	return !l.state.settled(e.ID) && !e.CreatedAt.Before(l.state.From) &&
		(len(l.Events) == 0 || slices.Contains(l.Events, e.Type))
}

// forwardAll settles events, in the order of the feed. It writes the state after each forwarded event. After a
// kill, listen repeats at most the event under way.
func (l *listener) forwardAll(ctx context.Context, events []event) error {
	passedOver := false // the last events were passed over: one write at the end notes them
	for _, e := range events {
		if passedOver = !l.wants(e); passedOver {
			l.state.read(e.ID)
			continue
		}
		if err := l.forward(ctx, e); err != nil {
			return err
		}
		l.state.read(e.ID)
		if err := l.state.save(); err != nil {
			return err
		}
	}
	if passedOver {
		return l.state.save()
	}
	return nil
}

// forward posts e until the local server accepts it or all tries have failed. While the server does
// not run, forward waits and counts no try, because the event is not at fault.
func (l *listener) forward(ctx context.Context, e event) error {
	body, err := e.envelope()
	if err != nil {
		return err
	}

	for attempt := 1; ; {
		got := l.local.post(ctx, e, body, attempt)
		if ctx.Err() != nil && !got.ok() {
			return ctx.Err()
		}
		if !got.reached {
			l.report.localAway(l.ForwardTo, got)
			if err := l.pause(ctx, awayWait); err != nil {
				return err
			}
			continue
		}
		var again time.Duration // never
		if !got.ok() && attempt <= len(retryWaits) {
			again = retryWaits[attempt-1]
		}
		l.report.attempt(e, attempt, got, again)
		if again == 0 {
			return nil
		}
		if err := l.pause(ctx, again); err != nil {
			return err
		}
		attempt++
	}
}

// jitter changes d by up to a fifth, so that many listeners do not ask at the same moments.
func jitter(d time.Duration) time.Duration {
	return d*4/5 + rand.N(d*2/5+1) // #nosec G404 -- the number is no secret
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// lookBack is how much older than the newest settled event a new event may be. An event's id is
// made before its transaction commits, and on another computer. Such a transaction has a few
// statements of at most 5 seconds each.
const lookBack = time.Minute

// firstID returns an id that sorts before every event made at t or later.
func firstID(t time.Time) string { return checkout.FirstID(checkout.PrefixEvent, t) }
