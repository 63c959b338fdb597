package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"example.com/checkout/storage/pgtemp"
)

// shop is a receiver whose handler takes time. It handles all requests at once, as a server with
// threads does.
type shop struct {
	*httptest.Server
	handler  time.Duration
	received arrivals // of deliveries

	mu         sync.Mutex
	arrived    map[string]time.Time // first request of each delivery
	requests   int
	open, most int // requests in the handler now, and at most
}

func openShop(handler time.Duration) *shop {
	s := &shop{handler: handler, arrived: map[string]time.Time{}}
	s.Server = httptest.NewServer(s)
	return s
}

func (s *shop) ServeHTTP(_ http.ResponseWriter, request *http.Request) {
	id := request.Header.Get("X-Service-Delivery-Id")
	s.mu.Lock()
	if _, again := s.arrived[id]; !again {
		s.arrived[id] = time.Now()
	}
	s.requests++
	s.open++
	s.most = max(s.most, s.open)
	s.mu.Unlock()
	s.received.add(id)
	if s.handler > 0 {
		_, _ = io.Copy(io.Discard, request.Body) // else the server does not see that the sender has gone
		_ = pgtemp.Pause(request.Context(), s.handler)
	}
	s.mu.Lock()
	s.open--
	s.mu.Unlock()
}

// arrivals returns the number of deliveries that have arrived.
func (s *shop) arrivals() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.arrived)
}

// stream is a number of deliveries to one shop.
type stream struct {
	name  string
	count int
	every time.Duration // 0: as fast as publishing goes
}

// publishers publish at a time when nothing else sets the pace.
const publishers = 24

// outcome is the result of a stream.
type outcome struct {
	name   string
	ids    []string        // of the deliveries
	lags   []time.Duration // from publish to arrival; of what did not arrive, to the end of the measurement
	missed int             // did not arrive
	rate   float64         // a second, from the first publish to the end of the last handler
	most   int             // requests in the handler at a time

	unsent, events []float64 // for each delivery; none without Temporal
}

// measure publishes a stream and waits for its arrivals: after the last publish, at most for a time.
// publish returns the id of a delivery.
func (s *shop) measure(
	ctx context.Context, st stream, wait time.Duration, publish func(context.Context, int) (string, error),
) (outcome, error) {
	fmt.Fprintf(os.Stderr, "%s: %d deliveries\n", st.name, st.count)
	var (
		began = make([]time.Time, st.count)
		o     = outcome{name: st.name, ids: make([]string, st.count)}
		group errgroup.Group
		first = time.Now()
	)
	if st.every == 0 {
		group.SetLimit(publishers)
	}
	for i := range st.count {
		if err := pgtemp.Pause(ctx, time.Until(first.Add(time.Duration(i)*st.every))); err != nil {
			return o, err
		}
		began[i] = time.Now()
		group.Go(func() (err error) {
			o.ids[i], err = publish(ctx, i)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return o, err
	}
	for deadline := time.Now().Add(wait); s.arrivals() < st.count && time.Now().Before(deadline); {
		if err := pgtemp.Pause(ctx, 10*time.Millisecond); err != nil {
			return o, err
		}
	}
	s.summarize(&o, first, began)
	return o, nil
}

// summarize sets what the shop has seen of a stream.
func (s *shop) summarize(o *outcome, first time.Time, began []time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, last := time.Now(), first
	for i, id := range o.ids {
		at, ok := s.arrived[id]
		if !ok {
			at = now
			o.missed++
		}
		o.lags = append(o.lags, at.Sub(began[i]))
		if at.After(last) {
			last = at
		}
	}
	o.rate = float64(len(o.ids)-o.missed) / last.Add(s.handler).Sub(first).Seconds()
	o.most = s.most
}

// streams returns the table of streams.
func streams(of string, outcomes ...outcome) table {
	t := table{columns: []string{
		of, "n", "p50, ms", "p99, ms", "max, ms", "missed", "rate, a second", "most at a time",
		"tries without a request", "events",
	}}
	for _, o := range outcomes {
		q := quantiles(o.lags)
		t.add(o.name, []float64{float64(len(o.lags))}, []float64{ms(q(0.5))}, []float64{ms(q(0.99))}, []float64{ms(q(1))},
			[]float64{float64(o.missed)}, []float64{o.rate}, []float64{float64(o.most)}, o.unsent, o.events)
	}
	return t
}
