package service

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"example.com/checkout/activities"
	"example.com/checkout/deploy/program/config"
	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
)

var (
	// An error here means a bad instrument name: a bug.
	sessionsOverdue, _ = meter.Int64ObservableGauge("checkout.session.overdue",
		metric.WithUnit("{session}"), metric.WithDescription("Overdue sessions that have not expired."))
	deliveryBacklog, _ = meter.Int64ObservableGauge("webhook.delivery.backlog",
		metric.WithUnit("{delivery}"), metric.WithDescription("Open deliveries, by what they wait for."))
	payoutsPending, _ = meter.Int64ObservableGauge("checkout.payout.pending",
		metric.WithUnit("{payout}"), metric.WithDescription("Unsent payouts, by reason."))
	oldestPayout, _ = meter.Float64ObservableGauge("checkout.payout.oldest",
		metric.WithUnit("s"), metric.WithDescription("Age of the oldest unsent payout without a hold; 0 if there is none."))
	findingsOpen, _ = meter.Int64ObservableGauge("checkout.finding.open",
		metric.WithUnit("{finding}"), metric.WithDescription("Open findings, by kind."))
	schemaVersion, _ = meter.Int64ObservableGauge("checkout.schema.version",
		metric.WithDescription("Number of the newest migration in the database."))
	feedHeld, _ = meter.Float64ObservableGauge("checkout.event.feed.held", metric.WithUnit("s"),
		metric.WithDescription("How long one open transaction has blocked the event feed, as seen by this process."))
	treasuryFollowed, _ = meter.Int64ObservableGauge("checkout.treasury.followed", metric.WithUnit("s"),
		metric.WithDescription("Unix time when a treasury round last succeeded, or the process started."))
	certificateDays, _ = meter.Float64ObservableGauge("checkout.temporal.certificate.remaining",
		metric.WithUnit("d"), metric.WithDescription("Remaining validity of the client certificate for Temporal."))
)

const (
	modeKey  = attribute.Key("checkout.mode")
	stateKey = attribute.Key("webhook.delivery.state")
	holdKey  = attribute.Key("checkout.payout.hold")
	kindKey  = attribute.Key("checkout.finding.kind")
)

// deliveryStates are the values of webhook.delivery.state.
var deliveryStates = map[string]string{
	storage.BacklogDeliveryScheduled: "scheduled",
	storage.BacklogDeliveryOverdue:   "overdue",
	storage.BacklogDeliveryParked:    "parked",
}

// backlogPace is the shortest time between two looks at the backlog, however many collectors ask.
const backlogPace = 10 * time.Second

// backlogMeter exports the backlog in the database. It reads the database when a collector reads the meter.
type backlogMeter struct {
	store *storage.Store

	mu      sync.Mutex
	at      time.Time // of the last look
	backlog []storage.Backlog
	schema  int64

	horizon string    // of the feed of events
	since   time.Time // when this process saw the horizon first, or last without an open transaction
}

// measureBacklog exports what waits in the database. Every worker process exports the same figures.
func measureBacklog(store *storage.Store) error {
	m := &backlogMeter{store: store}
	_, err := meter.RegisterCallback(m.observe,
		sessionsOverdue, deliveryBacklog, payoutsPending, oldestPayout, findingsOpen, schemaVersion, feedHeld)
	return err
}

// refresh reads the database unless it did so lately. m.mu must be locked.
func (m *backlogMeter) refresh(ctx context.Context) error {
	if !m.at.IsZero() && time.Since(m.at) < backlogPace {
		return nil
	}
	all, err := m.store.Installation.Backlog(ctx, activities.OverdueMargin)
	if err != nil {
		return err
	}
	schema, err := m.store.Installation.SchemaVersion(ctx)
	if err != nil {
		return err
	}
	horizon, open, err := m.store.Webhooks.FeedHorizon(ctx)
	if err != nil {
		return err
	}
	m.backlog, m.schema, m.at = all, schema, time.Now()
	if !open || horizon != m.horizon {
		m.horizon, m.since = horizon, m.at
	}
	return nil
}

func (m *backlogMeter) observe(ctx context.Context, o metric.Observer) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.refresh(ctx); err != nil {
		return err
	}
	o.ObserveInt64(schemaVersion, m.schema)
	o.ObserveFloat64(feedHeld, m.at.Sub(m.since).Seconds())
	for _, mode := range []checkout.Mode{checkout.ModeTest, checkout.ModeLive} {
		observeMode(o, mode, m.backlog)
	}
	return nil
}

// observeMode reports what waits in one mode. It reports 0 where nothing waits, so that each series is
// always there; only the holds of payouts and the kinds of findings come and go.
func observeMode(o metric.Observer, mode checkout.Mode, all []storage.Backlog) {
	in := modeKey.String(string(mode))
	counts, holds, oldest := map[string]int64{}, map[string]int64{"": 0}, time.Duration(0)
	for _, b := range all {
		switch {
		case b.Mode != mode:
		case b.Kind == storage.BacklogPayout:
			holds[b.Hold] = b.Count
			if b.Hold == "" { // one on hold may wait for weeks
				oldest = b.Oldest
			}
		case b.Kind == storage.BacklogFinding:
			o.ObserveInt64(findingsOpen, b.Count, metric.WithAttributes(in, kindKey.String(b.Hold)))
		default:
			counts[b.Kind] = b.Count
		}
	}
	o.ObserveInt64(sessionsOverdue, counts[storage.BacklogSessionOverdue], metric.WithAttributes(in))
	for kind, state := range deliveryStates {
		o.ObserveInt64(deliveryBacklog, counts[kind], metric.WithAttributes(in, stateKey.String(state)))
	}
	for hold, n := range holds {
		o.ObserveInt64(payoutsPending, n, metric.WithAttributes(in, holdKey.String(hold)))
	}
	o.ObserveFloat64(oldestPayout, oldest.Seconds(), metric.WithAttributes(in))
}

// measureCertificate exports how long the client's certificate for Temporal is still valid, if there is
// one. The file may be replaced at any time.
func measureCertificate(cfg config.Temporal) error {
	if cfg.ClientCertPath == "" {
		return nil
	}
	_, err := meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		end, err := cfg.CertificateExpires()
		if err != nil {
			return err
		}
		o.ObserveFloat64(certificateDays, time.Until(end).Hours()/24)
		return nil
	}, certificateDays)
	return err
}

// measureTreasury exports when a round of a mode's treasury last succeeded, in seconds since 1970.
func measureTreasury(mode checkout.Mode, synced *atomic.Int64) error {
	_, err := meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		o.ObserveInt64(treasuryFollowed, synced.Load(), metric.WithAttributes(modeKey.String(string(mode))))
		return nil
	}, treasuryFollowed)
	return err
}

// measure exports the figures that every process has.
func measure(cfg config.Config, store *storage.Store) error {
	if err := store.MeasurePool(); err != nil {
		return err
	}
	return measureCertificate(cfg.Temporal)
}

var (
	// Metrics are floats. No amount is read from them.
	floatCoins, _ = meter.Float64ObservableGauge("checkout.treasury.float",
		metric.WithDescription("Coins of the treasury: the balance, and what live transfers and pending payouts take."))
	floatDays, _ = meter.Float64ObservableGauge("checkout.treasury.float.remaining",
		metric.WithUnit("d"), metric.WithDescription("Days that the float lasts; absent if nothing left in 7 days."))
	floatLeast, _ = meter.Int64ObservableGauge("checkout.treasury.float.least",
		metric.WithUnit("d"), metric.WithDescription("Days that the float should last, as set."))
)

const (
	currencyKey = attribute.Key("checkout.payout.currency")
	partKey     = attribute.Key("checkout.float.part")
)

// floatPace is the shortest time between two looks at the float, which adds up the transfers of days.
const floatPace = time.Minute

// measureFloat exports the float of a mode with chains, and the days that it should last.
func measureFloat(n config.Networks, store *storage.Store) error {
	if !n.Chains {
		return nil
	}
	var (
		mu  sync.Mutex
		at  time.Time
		all []storage.Float
	)
	_, err := meter.RegisterCallback(func(ctx context.Context, o metric.Observer) (err error) {
		mu.Lock()
		defer mu.Unlock()
		if time.Since(at) >= floatPace {
			if all, err = store.Treasury.Floats(ctx, n.Mode); err != nil {
				return err
			}
			at = time.Now()
		}
		in := modeKey.String(string(n.Mode))
		o.ObserveInt64(floatLeast, int64(n.FloatDays), metric.WithAttributes(in))
		for _, f := range all {
			observeFloat(o, f, in)
		}
		return nil
	}, floatCoins, floatDays, floatLeast)
	return err
}

func observeFloat(o metric.Observer, f storage.Float, in attribute.KeyValue) {
	of := currencyKey.String(string(f.Balance.Currency()))
	for part, amount := range map[string]money.Crypto{"balance": f.Balance, "live": f.Live, "pending": f.Pending} {
		coins, _ := amount.Coins().Float64()
		o.ObserveFloat64(floatCoins, coins, metric.WithAttributes(in, of, partKey.String(part)))
	}
	if f.Days() != nil {
		days, _ := f.Days().Float64()
		o.ObserveFloat64(floatDays, days, metric.WithAttributes(in, of))
	}
}
