// Package rate is the live mode's source of exchange rates. It asks several independent sources for prices, compares
// them, and gives no rate unless they agree. Source: api/decisions/exchange_rates.md, "sources of a rate".
package rate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/shopspring/decimal"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
)

const (
	// pollEvery is the time between two polls of the sources.
	pollEvery = 10 * time.Second
	// readTimeout is for one reading of one source. It is shorter than pollEvery, so that a slow source
	// does not delay the next poll of the others.
	readTimeout = 5 * time.Second
	// jumpHold is how long the sources must agree on a rate far from the last good one. Source:
	// api/decisions/exchange_rates.md, "a jump of the price".
	jumpHold = 10 * time.Minute
)

var (
	// maxJump is how far a rate may be from the last good one, as a fraction of it.
	maxJump = decimal.RequireFromString("0.2")
	// maxDepeg is how far a stablecoin may be from one US dollar.
	maxDepeg = decimal.RequireFromString("0.02")
)

// Rates implements checkout.RateSource with prices of independent sources. Run reads them; every
// method may be called at the same time from several goroutines.
type Rates struct {
	options Options
	sources []*source // ordered by name

	mu        sync.Mutex // guards what the sources said last too
	histories map[market]*history
}

// A market is one direction that merchants can be paid in.
type market struct {
	from money.Currency
	to   money.PayoutCurrency
}

func (m market) String() string { return fmt.Sprintf("%s to %s", m.from, m.to) }

// markets lists every market, in the order of the interface document.
func markets() []market {
	var all []market
	for _, from := range money.Currencies {
		for _, to := range money.PayoutCurrencies {
			all = append(all, market{from, to})
		}
	}
	return all
}

// history is the result of the polls of a market.
type history struct {
	goodAt    time.Time       // when a quote was last possible; at first when Rates was made
	rate      decimal.Decimal // of that time, before the spread; zero: there was none yet
	jumpSince time.Time       // since when the sources have agreed on a rate far from it; zero: they do not
	jumpRate  decimal.Decimal // the last of those rates
	closed    bool            // no quote was possible after the last poll
}

// New returns Rates with these options. Its error names everything that is wrong with them.
func New(o Options) (*Rates, error) {
	sources, err := o.sources()
	if err != nil {
		return nil, err
	}
	r := &Rates{options: o, sources: sources, histories: map[market]*history{}}
	for _, m := range markets() {
		r.histories[m] = &history{goodAt: r.now()}
	}
	return r, nil
}

func (r *Rates) now() time.Time { return r.options.Now().UTC() }

// Run polls the sources every ten seconds, until ctx ends.
func (r *Rates) Run(ctx context.Context) {
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		r.poll(ctx)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// poll reads all sources at the same time, and then judges every market.
func (r *Rates) poll(ctx context.Context) {
	var all sync.WaitGroup
	for _, s := range r.sources {
		all.Go(func() {
			short, cancel := context.WithTimeout(ctx, readTimeout)
			defer cancel()
			got := s.read(short)
			if ctx.Err() == nil { // else the process stops, and a reading that was cut short says nothing
				r.storeReadings(ctx, s, got)
			}
		})
	}
	all.Wait()
	if ctx.Err() == nil {
		r.judgeAll(ctx)
	}
}

// storeReadings stores a reading of a source, and logs it when other prices are missing than last time.
func (r *Rates) storeReadings(ctx context.Context, s *source, got map[pair]reading) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var missing []string
	var because error
	for _, p := range s.pairs {
		err := s.put(p, got[p])
		if err != nil {
			missing = append(missing, p.String())
			because = err
		}
		countPrice(ctx, s.name, err)
	}
	names := strings.Join(missing, " ")
	switch {
	case names == s.missing:
	case names == "":
		r.options.Log.InfoContext(ctx, "all prices of an exchange rate source are there again", "source", s.name)
	default:
		r.options.Log.WarnContext(ctx, "prices of an exchange rate source are missing", "source", s.name,
			"prices", names, "error", because)
	}
	s.missing = names
}

// judgeAll notes which markets can be quoted, and logs which ones have changed.
func (r *Rates) judgeAll(ctx context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	var lost, back []string
	var because error
	for _, m := range markets() {
		h := r.histories[m]
		err := r.judge(m, h, now)
		gaugeMarket(ctx, r.options.Mode, m, err == nil)
		switch {
		case err != nil && !h.closed:
			lost = append(lost, m.String())
			because = err
		case err == nil && h.closed:
			back = append(back, m.String())
		}
		h.closed = err != nil
	}
	if len(lost) > 0 {
		r.options.Log.WarnContext(ctx, "exchange rates are not available", "markets", strings.Join(lost, ", "),
			"reason_of_the_last", because)
	}
	if len(back) > 0 {
		r.options.Log.InfoContext(ctx, "exchange rates are available again", "markets", strings.Join(back, ", "))
	}
}

// judge returns why a market cannot be quoted, and decides about jumps. The caller holds mu.
func (r *Rates) judge(m market, h *history, now time.Time) error {
	c, err := r.compare(m, now)
	if err != nil {
		h.jumpSince = time.Time{} // only a new level that holds without a break is believed
		return err
	}
	return h.accept(c.worst, now)
}

// accept makes rate the last good one. It returns an error while rate is too far from the last good
// one and has not held for long enough.
func (h *history) accept(rate decimal.Decimal, now time.Time) error {
	if err := h.jumped(rate); err != nil {
		if h.jumpSince.IsZero() || far(rate, h.jumpRate) {
			h.jumpSince = now
		}
		h.jumpRate = rate
		if now.Sub(h.jumpSince) < jumpHold {
			return err
		}
	}
	h.goodAt, h.rate, h.jumpSince = now, rate, time.Time{}
	return nil
}

// jumped returns an error when rate is too far from the last good one.
func (h *history) jumped(rate decimal.Decimal) error {
	if h.rate.IsZero() || !far(rate, h.rate) {
		return nil
	}
	return fmt.Errorf("the rate is %s, more than %s from %s at %s; it must hold for %s", rate, percent(maxJump),
		h.rate, h.goodAt.Format(time.RFC3339), jumpHold)
}

func far(rate, from decimal.Decimal) bool {
	return rate.Sub(from).Abs().GreaterThan(from.Mul(maxJump))
}

// Quote implements checkout.RateSource. Its rate is the worst one of the sources, less the spread.
// The text of its error gives the reason, for the log.
func (r *Rates) Quote(_ context.Context, from money.Currency, to money.PayoutCurrency) (checkout.Quote, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	c, err := r.quotable(market{from, to}, now)
	if err != nil {
		return checkout.Quote{}, fmt.Errorf("%w from %s to %s: %w", checkout.ErrNoRate, from, to, err)
	}
	left := decimal.NewFromInt(1).Sub(r.options.spread(market{from, to}, now))
	rate := c.worst.Mul(left).Truncate(ratePlaces)
	quoted, err := money.ParseRate(rate.String())
	if err != nil {
		return checkout.Quote{}, fmt.Errorf("%w from %s to %s: %w", checkout.ErrNoRate, from, to, err)
	}
	return checkout.Quote{Rate: quoted, At: now, Until: now.Add(r.options.Lock), Sources: c.sources}, nil
}

// quotable compares the prices of a market at the time now. The caller holds mu.
func (r *Rates) quotable(m market, now time.Time) (comparison, error) {
	h := r.histories[m]
	if h == nil {
		return comparison{}, errors.New("there are no such currencies")
	}
	c, err := r.compare(m, now)
	if err != nil {
		return comparison{}, err
	}
	return c, h.jumped(c.worst)
}

// NoQuoteSince returns since when no quote has been possible, in UTC and to within one poll. It is the
// zero time while one is possible. Before the first quote it is when New was called.
func (r *Rates) NoQuoteSince(from money.Currency, to money.PayoutCurrency) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := market{from, to}
	if _, err := r.quotable(m, r.now()); err == nil || r.histories[m] == nil {
		return time.Time{}
	}
	return r.histories[m].goodAt
}

// NeverQuoted lists the markets that too few of the chosen sources have prices for, such as "CAD to
// BTC": no quote will ever be possible there. It is empty with all three sources.
func (r *Rates) NeverQuoted() []string {
	one := price{bid: decimal.NewFromInt(1), ask: decimal.NewFromInt(1)}
	var never []string
	for _, m := range markets() {
		able := 0
		for _, s := range r.sources {
			offered := func(p pair) (price, error) {
				if !slices.Contains(s.pairs, p) {
					return price{}, errNotOffered
				}
				return one, nil
			}
			if _, err := convert(string(m.from), string(m.to), offered); err == nil {
				able++
			}
		}
		if able < r.options.MinSources {
			never = append(never, m.String())
		}
	}
	return never
}
