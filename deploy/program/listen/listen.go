// Package listen forwards a merchant's test-mode events to a server on the developer's computer. It
// signs them as deliveries are signed, and goes on where the last run ended. It uses only the REST API.
package listen

import (
	"context"
	"errors"
	"slices"
	"time"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// Run forwards events until ctx ends, and then returns nil. While a server is away, it waits. It
// returns an error when it cannot go on: the API refuses the request, or the state file is in use,
// malformed or not writable. o has passed Check.
func Run(ctx context.Context, o Options) error {
	return newListener(o).run(ctx)
}

func newListener(o Options) *listener {
	r := reporter{out: o.Out, json: o.JSON, failed: []fields{}}
	return &listener{Options: o, report: r, timeout: webhook.ResponseTimeout, pause: pause}
}

// listener is the state of Run. Only one goroutine uses it.
type listener struct {
	Options
	state   *state
	report  reporter
	timeout time.Duration                                    // of the local server
	pause   func(ctx context.Context, d time.Duration) error // returns ctx's error when ctx ends
}

// pollInterval is the time between looks at the feed, and between tries while a server is away.
const pollInterval = time.Second

// retryWaits are the waits after each attempt for one event; 0: it was the last one. They are shorter than the
// delays of deliveries, because a developer is watching.
var retryWaits = []time.Duration{time.Second, 2 * time.Second, 5 * time.Second, 0}

func (l *listener) run(ctx context.Context) (err error) {
	if l.state, err = openState(l.StateFile); err != nil {
		return err
	}
	defer l.state.close()
	l.report.ready(l.Options, l.state.Secret)
	if l.Since.IsZero() && !l.state.Began.IsZero() {
		l.report.notice("events missed while listen did not run come first")
	}
	err = l.follow(ctx)
	l.report.end()
	if errors.Is(err, ctx.Err()) { // listen was stopped
		return nil
	}
	return err
}

// follow forwards the events behind the position, until ctx ends.
func (l *listener) follow(ctx context.Context) error {
	for {
		more, err := l.forwardPage(ctx)
		away, isAway := errors.AsType[awayError](err)
		switch {
		case isAway && ctx.Err() == nil:
			l.report.away(away)
		case err != nil && !isAway:
			return err
		case more:
			continue
		}
		if err := l.pause(ctx, pollInterval); err != nil {
			return err
		}
	}
}

// forwardPage forwards the next page of the feed. The service removes old events, also the one at the position.
func (l *listener) forwardPage(ctx context.Context) (more bool, err error) {
	if err := l.setStart(ctx); err != nil {
		return false, err
	}
	query := "order=asc&limit=100"
	if l.state.After != "" {
		query += "&after=" + l.state.After
	}
	found, err := l.getPage(ctx, query)
	switch {
	case errors.Is(err, errRemoved):
		removed, _ := checkout.IDTime(checkout.PrefixEvent, l.state.After) // openState checks it, or the API made it
		return true, l.startAt(ctx, removed.Add(-checkout.ClockSkew))
	case err != nil:
		return false, err
	}
	return found.HasMore, l.forwardAll(ctx, found.Data)
}

// setStart sets the position where this run begins, once.
func (l *listener) setStart(ctx context.Context) (err error) {
	switch {
	case !l.Since.IsZero():
		if err = l.startAt(ctx, l.Since); err == nil {
			l.Since = time.Time{}
		}
	case l.state.Began.IsZero():
		if err = l.startBehind(ctx, "", time.Time{}); err == nil {
			l.report.notice("first run: events from now on (--since 10m would send older ones too)")
		}
	}
	return err
}

// startAt sets the position so that every event created at t or later comes. Neither the order of the feed nor
// created_at follows the ids exactly.
func (l *listener) startAt(ctx context.Context, t time.Time) error {
	cursor := checkout.FirstID(checkout.PrefixEvent, t.Add(-checkout.ClockSkew))
	return l.startBehind(ctx, "&cursor="+cursor, t)
}

// startBehind sets the position to the newest event, or to the newest one before a cursor.
func (l *listener) startBehind(ctx context.Context, cursor string, from time.Time) error {
	found, err := l.getPage(ctx, "limit=1"+cursor)
	if err != nil {
		return err
	}
	l.state.After = ""
	if len(found.Data) > 0 {
		l.state.After = found.Data[0].ID
	}
	l.state.From, l.state.Began = from, time.Now().UTC()
	return l.state.save()
}

func (l *listener) isWanted(e event) bool {
	return !e.CreatedAt.Before(l.state.From) && (len(l.Events) == 0 || slices.Contains(l.Events, string(e.Type)))
}

// forwardAll forwards events in order. It saves the position after each one, so a kill repeats at most one event.
func (l *listener) forwardAll(ctx context.Context, events []event) error {
	for i, e := range events {
		wanted := l.isWanted(e)
		if wanted {
			if err := l.forward(ctx, e); err != nil {
				return err
			}
		}
		l.state.After = e.ID
		if wanted || i == len(events)-1 {
			if err := l.state.save(); err != nil {
				return err
			}
		}
	}
	return nil
}

// forward posts e until the local server accepts it or all attempts have failed. It returns an awayError while the
// server does not run, because the event is not at fault.
func (l *listener) forward(ctx context.Context, e event) error {
	body, err := webhook.Envelope(e.ID, e.Type, e.CreatedAt, e.Data)
	if err != nil {
		return err
	}
	for i, wait := range retryWaits {
		got := l.post(ctx, e, body, i+1)
		switch {
		case got.ok():
			wait = 0
		case ctx.Err() != nil:
			return ctx.Err()
		case got.away():
			return awayError{l.ForwardTo, got.err}
		}
		l.report.back(l.ForwardTo)
		l.report.attempt(e, i+1, got, wait)
		if wait == 0 {
			break
		}
		if err := l.pause(ctx, wait); err != nil {
			return err
		}
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
