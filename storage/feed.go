package storage

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/workflows/checkout"
)

// deliveryChannel is where the trigger of webhook_delivery tells of changes:
// "merchant mode", at most once a second.
const deliveryChannel = "delivery"

// FeedPace is a little more than the second for which the trigger tells of
// nothing more.
const FeedPace = 1200 * time.Millisecond

// How the feed keeps itself alive.
const (
	watchLease   = time.Minute      // how long a trigger tells of changes for somebody who does not renew
	watchRenewal = 20 * time.Second // also how soon a dead connection is noticed
	renewTimeout = 5 * time.Second  // for a connection that answers no more
	feedRetry    = time.Second      // after a connection that was lost
)

// watched is whose deliveries somebody looks at.
type watched struct {
	merchantID string
	mode       checkout.Mode
}

// Feed tells who subscribes that deliveries of a merchant and mode changed. It
// has one connection to PostgreSQL for all subscribers, none before the first.
type Feed struct {
	store *Store

	mu          sync.Mutex
	closed      bool
	subscribers map[watched]map[*Subscription]struct{}
	first       chan struct{} // closed with the first subscription
	once        sync.Once
}

// NewFeed returns a feed that does nothing until Run.
func (s *Store) NewFeed() *Feed {
	return &Feed{store: s, subscribers: map[watched]map[*Subscription]struct{}{}, first: make(chan struct{})}
}

// Subscription is one subscriber's.
type Subscription struct {
	// Changes has a value when deliveries change, or may have. Changes of the next
	// FeedPace come without another: look at once, and again after that. It never
	// holds more than one: who is slow looks once, at everything. It is closed when
	// the feed ends.
	Changes <-chan struct{}

	changes chan struct{}
	of      watched
	feed    *Feed
}

// Subscribe begins a subscription, which must be closed. Its first change comes
// once the feed listens, so that what happened in between is looked at.
func (f *Feed) Subscribe(ctx context.Context, owner checkout.Owner) (*Subscription, error) {
	changes := make(chan struct{}, 1)
	sub := &Subscription{Changes: changes, changes: changes, of: watched{owner.MerchantID, owner.Mode}, feed: f}
	if err := renew(ctx, f.store.pool, []watched{sub.of}); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		close(changes)
		return sub, nil
	}
	if f.subscribers[sub.of] == nil {
		f.subscribers[sub.of] = map[*Subscription]struct{}{}
	}
	f.subscribers[sub.of][sub] = struct{}{}
	f.once.Do(func() { close(f.first) })
	sub.tell()
	return sub, nil
}

// Close ends the subscription. Repeating it changes nothing.
func (sub *Subscription) Close() {
	f := sub.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.subscribers[sub.of], sub)
	if len(f.subscribers[sub.of]) == 0 {
		delete(f.subscribers, sub.of)
	}
}

func (sub *Subscription) tell() {
	select {
	case sub.changes <- struct{}{}:
	default: // it has not taken the last one yet
	}
}

// Run listens until ctx ends, and then ends every subscription. It connects
// again by itself; what happened in between is told as a change to everybody.
func (f *Feed) Run(ctx context.Context) {
	defer f.close()
	select {
	case <-f.first:
	case <-ctx.Done():
		return
	}
	for ctx.Err() == nil {
		if err := f.listen(ctx); ctx.Err() == nil {
			slog.WarnContext(ctx, "feed of deliveries interrupted", "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(feedRetry):
		}
	}
}

// listen passes changes on until its connection breaks.
func (f *Feed) listen(ctx context.Context) error {
	conn, err := pgx.ConnectConfig(ctx, f.store.pool.Config().ConnConfig.Copy())
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), feedRetry)
		defer cancel()
		_ = conn.Close(ctx) // it holds nothing
	}()
	if _, err := conn.Exec(ctx, "LISTEN "+deliveryChannel); err != nil {
		return err
	}
	for {
		if err := renew(ctx, conn, f.watched()); err != nil {
			return err
		}
		f.tell("")
		if err := f.pass(ctx, conn); err != nil {
			return err
		}
	}
}

// pass passes changes on until it is time to renew.
func (f *Feed) pass(ctx context.Context, conn *pgx.Conn) error {
	until, cancel := context.WithTimeout(ctx, watchRenewal)
	defer cancel()
	for {
		n, err := conn.WaitForNotification(until)
		switch {
		case err == nil:
			f.tell(n.Payload)
		case until.Err() != nil && ctx.Err() == nil && !conn.IsClosed():
			return nil
		default:
			return err
		}
	}
}

// tell tells those whom a payload concerns; an empty one concerns everybody.
func (f *Feed) tell(payload string) {
	merchantID, mode, _ := strings.Cut(payload, " ")
	f.mu.Lock()
	defer f.mu.Unlock()
	for of, subs := range f.subscribers {
		if payload != "" && of != (watched{merchantID, checkout.Mode(mode)}) {
			continue
		}
		for sub := range subs {
			sub.tell()
		}
	}
}

// watched returns whose deliveries somebody looks at.
func (f *Feed) watched() []watched {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := make([]watched, 0, len(f.subscribers))
	for of := range f.subscribers {
		all = append(all, of)
	}
	return all
}

func (f *Feed) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	for _, subs := range f.subscribers {
		for sub := range subs {
			close(sub.changes)
		}
	}
	clear(f.subscribers)
}

// renew makes the trigger tell of changes for watchLease. Rows are taken in one
// order, so that two processes cannot wait for each other.
func renew(ctx context.Context, to executor, all []watched) error {
	ctx, cancel := context.WithTimeout(ctx, renewTimeout)
	defer cancel()
	merchants, modes := make([]string, len(all)), make([]string, len(all))
	for i, of := range all {
		merchants[i], modes[i] = of.merchantID, string(of.mode)
	}
	_, err := to.Exec(ctx, `
		INSERT INTO delivery_watch (merchant_id, mode, until, told_at)
		SELECT m, o, clock_timestamp() + $3::interval, '-infinity' FROM unnest($1::text[], $2::text[]) AS w (m, o) ORDER BY m, o
		ON CONFLICT (merchant_id, mode) DO UPDATE SET until = greatest(delivery_watch.until, excluded.until)`, merchants, modes, watchLease)
	if err != nil {
		return fmt.Errorf("watch deliveries: %w", err)
	}
	return nil
}
