package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"sync"
	"time"

	"example.com/checkout/deploy/standin/devstack"
)

// paid measures whole sessions: each is created, paid on the page, and ends when checkout.completed
// and payout.sent are received. It compares with a bare Temporal application of the same shape
// whose activities do nothing.
func paid(flags *flag.FlagSet) func(context.Context) (report, error) {
	p := pace{rounds: 16, period: 5 * time.Second, clients: 12}
	p.addFlags(flags)
	return func(ctx context.Context) (report, error) {
		r, err := newRig(ctx, devstack.Options{})
		if err != nil {
			return report{}, err
		}
		defer r.stop()
		customers := r.newCustomers(p.clients)
		go customers.listen(ctx)
		return r.compareWithBare(ctx, p, "way", "Whole sessions a second / the bare application's",
			&way{name: "paid session", do: customers.payOne},
			func(b *bareApplication) *way { return &way{name: "bare Temporal, no-op activities", do: b.payOne} })
	}
}

// customers pay sessions and wait until the merchant has the events.
type customers struct {
	*rig
	create   func(context.Context) (string, error)
	http     *http.Transport
	received arrivals // of events, by session
}

func (r *rig) newCustomers(clients int) *customers {
	return &customers{
		rig: r, create: r.createOverREST(clients),
		http: &http.Transport{MaxIdleConnsPerHost: 2 * clients},
	}
}

var sessionOfEvent = regexp.MustCompile(`"session_id":"(cs_[0-9a-z]{26})"`)

// listen notes the arrivals at the demo merchant's receiver until ctx ends.
func (c *customers) listen(ctx context.Context) {
	seen := 0
	for {
		arrivals, more := c.stack.Receiver.Arrivals()
		for _, a := range arrivals[seen:] {
			if found := sessionOfEvent.FindSubmatch(a.Body); found != nil && !a.Duplicate {
				c.received.add(string(found[1]))
			}
		}
		seen = len(arrivals)
		select {
		case <-more:
		case <-ctx.Done():
			return
		}
	}
}

// arrivals lets those who wait know of what has come, by its id.
type arrivals struct{ of sync.Map }

// most is how much comes of one id.
const most = 2

func (a *arrivals) channel(id string) chan struct{} {
	channel, _ := a.of.LoadOrStore(id, make(chan struct{}, most))
	return channel.(chan struct{})
}

// add records an arrival. It may come before anybody waits.
func (a *arrivals) add(id string) {
	select {
	case a.channel(id) <- struct{}{}:
	default: // it came again
	}
}

// patience is how long one may take before the benchmark gives up.
const patience = time.Minute

// await waits until n have come.
func (a *arrivals) await(ctx context.Context, id string, n int) error {
	defer a.of.Delete(id)
	late := time.After(patience)
	for range n {
		select {
		case <-a.channel(id):
		case <-ctx.Done():
			return ctx.Err()
		case <-late:
			return errors.New(id + ": no answer within a minute")
		}
	}
	return nil
}

// payOne runs one session from its creation to its two events.
func (c *customers) payOne(ctx context.Context) error {
	id, err := c.create(ctx)
	if err != nil {
		return err
	}
	if err := c.pay(ctx, id); err != nil {
		return err
	}
	return c.received.await(ctx, id, 2)
}

// pay sends the page's form as a browser does.
func (c *customers) pay(ctx context.Context, id string) error {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return err
	}
	form := url.Values{
		"card_number": {"4242424242424242"},
		"exp":         {"12/40"},
		"cvc":         {"123"},
		"email":       {"ann@example.com"},
	}
	request := send(ctx, http.MethodPost, c.stack.PageURL()+"/"+id, []byte(form.Encode()),
		"Content-Type", "application/x-www-form-urlencoded")
	answer, err := (&http.Client{Transport: c.http, Jar: jar}).Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if text, err := io.ReadAll(answer.Body); err != nil || answer.StatusCode != http.StatusOK {
		return fmt.Errorf("pay %s: %s: %.200s: %w", id, answer.Status, text, err)
	}
	return nil
}
