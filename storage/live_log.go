package storage

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
)

// deliveryChannel is the channel on which the trigger of webhook_delivery announces changes. The
// payload is "merchant mode". The trigger announces at most once a second.
const deliveryChannel = "delivery"

// LiveLogPace is the shortest useful time between two looks at the deliveries: a little more than the
// second in which the trigger announces nothing more.
const LiveLogPace = 1200 * time.Millisecond

// How the live log keeps itself alive.
const (
	watchLease   = time.Minute      // the trigger announces for this long after a renewal
	watchRenewal = 20 * time.Second // also the time in which a dead connection is noticed
	renewTimeout = 5 * time.Second  // for a connection that does not answer
	liveLogRetry = time.Second      // after a lost connection
)

// watched names the merchant and mode of a subscription.
type watched struct {
	merchantID string
	mode       checkout.Mode
}

// LiveLog tells its subscribers that deliveries of a merchant and mode changed. It has one connection
// to PostgreSQL for all subscribers, and no connection before the first subscription.
type LiveLog struct {
	store *Store

	mu          sync.Mutex
	closed      bool
	subscribers map[watched]map[*Subscription]struct{}
	first       chan struct{} // closed by the first subscription
	once        sync.Once
}

// NewLiveLog returns a live log. It does nothing until Run.
func (s *Store) NewLiveLog() *LiveLog {
	return &LiveLog{store: s, subscribers: map[watched]map[*Subscription]struct{}{},
		first: make(chan struct{})}
}

// Subscription tells one subscriber of changes.
type Subscription struct {
	// Changes has a value when deliveries may have changed. Changes within the next LiveLogPace bring
	// no second value: look at the deliveries at once, and again after LiveLogPace. The channel holds
	// one value at most, so a slow subscriber misses no change and looks only once. The live log closes
	// the channel when it ends.
	Changes <-chan struct{}

	changes chan struct{}
	of      watched
	log     *LiveLog
}

// Subscribe adds a subscription. The caller must close it. The first value comes once the live log
// listens, so the subscriber sees every change since Subscribe.
func (f *LiveLog) Subscribe(ctx context.Context, owner checkout.Owner) (*Subscription, error) {
	changes := make(chan struct{}, 1)
	sub := &Subscription{Changes: changes, changes: changes,
		of: watched{owner.MerchantID, owner.Mode}, log: f}
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
	f := sub.log
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
	default: // the subscriber has not yet taken the last value
	}
}

// Run listens until ctx ends and then ends every subscription. It connects again when the
// connection breaks, and then tells every subscriber of a possible change.
func (f *LiveLog) Run(ctx context.Context) {
	defer f.close()
	select {
	case <-f.first:
	case <-ctx.Done():
		return
	}
	for ctx.Err() == nil {
		if err := f.listen(ctx); ctx.Err() == nil {
			slog.WarnContext(ctx, "live log of deliveries interrupted", "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(liveLogRetry):
		}
	}
}

// listen passes changes on until the connection breaks.
func (f *LiveLog) listen(ctx context.Context) error {
	conn, err := pgx.ConnectConfig(ctx, f.store.listen.Copy())
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), liveLogRetry)
		defer cancel()
		_ = conn.Close(ctx) // the connection has no open transaction
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

// pass passes changes on until the next renewal.
func (f *LiveLog) pass(ctx context.Context, conn *pgx.Conn) error {
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

// tell informs the subscribers that payload names; "" informs all of them.
func (f *LiveLog) tell(payload string) {
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

// watched returns the merchants and modes that have subscribers.
func (f *LiveLog) watched() []watched {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := make([]watched, 0, len(f.subscribers))
	for of := range f.subscribers {
		all = append(all, of)
	}
	return all
}

func (f *LiveLog) close() {
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

// renew makes the trigger announce changes for another watchLease. Every process takes the rows in
// the same order, so two processes cannot deadlock.
func renew(ctx context.Context, to pg.Executor, all []watched) error {
	ctx, cancel := context.WithTimeout(ctx, renewTimeout)
	defer cancel()
	merchants, modes := make([]string, len(all)), make([]string, len(all))
	for i, of := range all {
		merchants[i], modes[i] = of.merchantID, string(of.mode)
	}
	_, err := to.Exec(ctx, `
		INSERT INTO delivery_watch (merchant_id, mode, until, told_at)
		SELECT m, o, clock_timestamp() + $3::interval, '-infinity'
		FROM unnest($1::text[], $2::text[]) AS w (m, o) ORDER BY m, o
		ON CONFLICT (merchant_id, mode)
			DO UPDATE SET until = greatest(delivery_watch.until, excluded.until)`,
		merchants, modes, watchLease)
	return pg.Wrap("watch deliveries", err)
}
