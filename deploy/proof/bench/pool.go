package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// senders is the size of the plain pool.
const senders = 256

// pool measures a stream without PostgreSQL and Temporal: goroutines take deliveries from a channel
// and post them as the service does. It shows what this computer can do.
func (l deliveryLoad) pool(ctx context.Context, st stream) (outcome, error) {
	s := openShop(l.handler)
	defer s.Close()
	st.name = fmt.Sprintf("pool of %d, %s", senders, st.name)
	queue, transport := make(chan string, st.count), &http.Transport{DisableKeepAlives: true}
	group, ctx := errgroup.WithContext(ctx)
	for range senders {
		group.Go(func() error {
			for id := range queue {
				if err := post(ctx, transport, s.URL, id); err != nil {
					return err
				}
			}
			return nil
		})
	}
	o, err := s.measure(ctx, st, l.wait, func(context.Context, int) (string, error) {
		id := checkout.NewID(checkout.PrefixDelivery)
		queue <- id
		return id, nil
	})
	close(queue)
	if failed := group.Wait(); failed != nil {
		err = failed
	}
	return o, err
}

// Of every delivery of the pool.
var (
	poolKey  = webhook.SecretDigest(webhook.NewSecret())
	poolBody = fmt.Appendf(nil, `{"id":%q,"type":"payout.sent","created_at":"2026-01-01T00:00:00.000Z","data":{}}`,
		checkout.NewID(checkout.PrefixEvent))
)

// post sends one delivery over a new connection.
func post(ctx context.Context, transport *http.Transport, url, id string) error {
	request := send(ctx, http.MethodPost, url, poolBody,
		webhook.SignatureHeader, webhook.Sign(poolKey, time.Now(), poolBody))
	for name, value := range webhook.RequestHeaders(id, id, webhook.PayoutSent, 1) {
		request.Header.Set(name, value)
	}
	answer, err := transport.RoundTrip(request)
	if err != nil {
		return err
	}
	return answer.Body.Close()
}

// besidePool measures a shop whose handler takes time: at the steady pace and with a backlog. Before each, it
// measures the pool with the same.
func (l deliveryLoad) besidePool(ctx context.Context, r *rig) (got report, err error) {
	if l.handler >= webhook.ResponseTimeout {
		return got, fmt.Errorf("-handler must be below %s: that handler never answers in time", webhook.ResponseTimeout)
	}
	if err := l.warmUp(ctx, r); err != nil {
		return got, err
	}
	var all []outcome
	for _, st := range []stream{l.paced(), {name: fmt.Sprintf("backlog of %d", l.backlog), count: l.backlog}} {
		if st.count == 0 {
			continue
		}
		pooled, err := l.pool(ctx, st)
		if err != nil {
			return got, err
		}
		delivered, err := l.deliver(ctx, r, st)
		if err != nil {
			return got, err
		}
		all = append(all, delivered, pooled)
		got.Result += fmt.Sprintf("Rate / the pool's, %s: %.3f. ", st.name, delivered.rate/pooled.rate)
	}
	of := fmt.Sprintf("handler of %s, registrations: %d", l.handler, l.endpoints)
	got.Tables = []table{streams(of, all...)}
	return got, nil
}
