package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"example.com/checkout/deploy/proof/chaos/invariant"
	"example.com/checkout/workflows/contract"
	"example.com/checkout/workflows/money"
)

// Test cards, one for each outcome. Source: api/README.md, "Test cards".
var cards = []string{
	"4242424242424242", "4242424242424242", "4242424242424242", "5555555555554444", "378282246310005", "4242424242424242",
	"4000000000000002", "4000000000009995", "4000000000000119", // declined
	"4100000000000019",                                         // fraud
	"4000000000003220", "4000008400001629", "4000000000003063", // 3-D Secure: passes, fails, abandoned
	"4000000000000077", "4000000000000341", "4000000000000259", // slow, lost answer, fails twice
	"4000000000000267", "4000000000000275", // its payout fails
}

const goodCard = "4242424242424242"

// script is the story of one session after its creation. A script with a race makes two requests at
// nearly the same time and records the winner.
type script struct {
	name   string
	weight int
	api    int // the API with the needed lifetime: 1 short, 2 long, 0 either
	play   step
}

// step is a part of a script.
type step func(ctx context.Context, c *chaos, s *scene)

// scene is one session that plays its script.
type scene struct {
	m         *shop
	id        string
	expiresAt time.Time
	random    *rand.Rand
}

var scripts = []script{
	{"pay", 45, 0, story(pays(cards...), pays(cards...))},
	{"pay late", 6, 2, story(waits(time.Second, 5*time.Second), pays(goodCard))},
	{"expire", 5, 0, endsBy(invariant.OpExpire)},
	{"advance", 5, 2, endsBy(invariant.OpAdvance)},
	{"leave", 5, 0, leave},
	{"pay × expire", 9, 2, race(pays(goodCard), endsBy(invariant.OpExpire), 80*time.Millisecond)},
	{"pay × advance", 9, 2, race(pays(goodCard), endsBy(invariant.OpAdvance), 120*time.Millisecond)},
	{"pay × signal", 5, 2, race(pays(goodCard), sendSignals, 150*time.Millisecond)},
	{"pay × timer", 10, 1, func(ctx context.Context, c *chaos, s *scene) {
		left := time.Until(s.expiresAt)
		if left > shortLifetime { // the other API made it
			return
		}
		pause(ctx, left-between(s.random, 0, 2*time.Second)) // a payment takes about one under load
		c.pay(ctx, s.m, s.id, goodCard)
	}},
	{"pay, refund", 12, 0, story(pays(refundCards...), refunds)},
	{"pay, wait, refund", 8, 0, story(pays(refundCards...), waits(2*time.Second, 8*time.Second), refunds)},
	{"pay, dispute, refund", 12, 0, story(pays(disputedCards...), waits(0, 12*time.Second), refunds)},
	{"expire × advance", 3, 2, race(endsBy(invariant.OpExpire), endsBy(invariant.OpAdvance), 30*time.Millisecond)},
	{"pay × pay", 3, 0, race(pays(goodCard), pays("4100000000000019"), 60*time.Millisecond)},
}

func story(steps ...step) step {
	return func(ctx context.Context, c *chaos, s *scene) {
		for _, next := range steps {
			next(ctx, c, s)
		}
	}
}

// race makes two steps. The second starts up to spread after the first, or in a third of the
// cases before it.
func race(first, second step, spread time.Duration) step {
	return func(ctx context.Context, c *chaos, s *scene) {
		by := between(s.random, -spread/2, spread)
		var both sync.WaitGroup
		both.Go(func() {
			time.Sleep(-by)
			first(ctx, c, s)
		})
		both.Go(func() {
			time.Sleep(by)
			second(ctx, c, s)
		})
		both.Wait()
	}
}

func pays(from ...string) step {
	return func(ctx context.Context, c *chaos, s *scene) { c.pay(ctx, s.m, s.id, pick(s.random, from)) }
}

// waits does nothing for a time between two.
func waits(from, to time.Duration) step {
	return func(ctx context.Context, _ *chaos, s *scene) { pause(ctx, between(s.random, from, to)) }
}

func leave(ctx context.Context, c *chaos, s *scene) { c.readStatus(ctx, s.m, s.id) }

func endsBy(op string) step {
	return func(ctx context.Context, c *chaos, s *scene) { c.end(ctx, s.m, op, s.id) }
}

// sendSignals acts as an operator who sends a session two signals; the first one makes no sense.
func sendSignals(ctx context.Context, c *chaos, s *scene) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	c.recordOperator(invariant.OpSignal, s.id)
	// No session is paid by a signal.
	_ = c.rig.temporal.SignalWorkflow(
		ctx, s.id, "", contract.SignalComplete, contract.CompleteInput{TransactionID: "txn_none"},
	)
	// An error means that the session has ended.
	_ = c.rig.temporal.SignalWorkflow(ctx, s.id, "", contract.SignalExpire, nil)
}

// terms is the body of a request that creates a session. The key is in the metadata, so that the session names
// the request that created it.
type terms struct {
	Amount         json.Number          `json:"amount"`
	Currency       money.Currency       `json:"currency"`
	PayoutCurrency money.PayoutCurrency `json:"payout_currency"`
	WebhookURL     string               `json:"webhook_url,omitempty"`
	Metadata       map[string]string    `json:"metadata"`
}

func (c *chaos) newTerms() terms {
	key := fmt.Sprintf("key-%d", c.keys.Add(1))
	return terms{Amount: "10.50", Currency: money.EUR, PayoutCurrency: money.USDC, Metadata: map[string]string{"key": key}}
}

func (t terms) key() string { return t.Metadata["key"] }

func (t terms) body() string {
	text, _ := json.Marshal(t) // never fails with strings
	return string(text)
}

// longestSession is how long a session may play its script.
const longestSession = 90 * time.Second

// think is how long a customer at most waits before the next session.
const think = 500 * time.Millisecond

// work keeps sessions under way until ctx ends.
func (c *chaos) work(ctx context.Context) {
	var all sync.WaitGroup
	for i := range c.customers {
		random := rand.New(rand.NewPCG(c.seed, uint64(i)+1)) //nolint:gosec // the same seed must give the same numbers
		all.Go(func() {
			for ctx.Err() == nil {
				c.session(random)
				pause(ctx, between(random, 0, think))
			}
		})
	}
	all.Wait()
}

func pick[T any](random *rand.Rand, from []T) T { return from[random.IntN(len(from))] }

// draw chooses by weight, relative to the others.
func draw[T interface{ often() int }](from []T, random *rand.Rand) T {
	var urn []T
	for _, one := range from {
		urn = append(urn, slices.Repeat([]T{one}, one.often())...)
	}
	return pick(random, urn)
}

func (s script) often() int { return s.weight }

// session plays one script to its end, even if the load ends before.
func (c *chaos) session(random *rand.Rand) {
	if c.live && random.IntN(10) < liveShare {
		network := pick(random, []string{money.Ethereum, money.Bitcoin})
		m := pick(random, c.world.merchants)
		c.liveSession(c.life, m, draw(liveScripts, random), random, invariant.CurrenciesOn(network)...)
		return
	}
	ctx, cancel := context.WithTimeout(c.life, longestSession)
	defer cancel()
	chosen := draw(scripts, random)
	m, t := pick(random, c.merchants), c.newTerms()
	if random.IntN(3) == 0 {
		t.Metadata["order_id"] = "order-" + t.key()
	}
	if random.IntN(10) == 0 {
		t.WebhookURL = m.ownURL
	}
	id, expiresAt := c.create(ctx, m, t, 20, chosen.api)
	if id == "" {
		return
	}
	if random.IntN(12) == 0 { // a client that did not see the answer
		c.create(ctx, m, t, 2)
	}
	c.play(ctx, chosen, &scene{m, id, expiresAt, random})
}

// play plays the script and notes who did.
func (c *chaos) play(ctx context.Context, chosen script, s *scene) {
	c.mu.Lock()
	c.played = append(c.played, played{chosen.name, s.id})
	c.mu.Unlock()
	c.created.Add(1)
	chosen.play(ctx, c, s)
}

// steer makes merchants hold, resume, hasten and replay their deliveries until ctx ends.
func (c *chaos) steer(ctx context.Context) {
	random := rand.New(rand.NewPCG(c.seed, 0x57ee7)) //nolint:gosec // the same seed must give the same numbers
	for ; ctx.Err() == nil; pause(ctx, 300*time.Millisecond) {
		wish := pick(random, []struct {
			of    string
			verbs []string
		}{
			{"pending", []string{"hold", "resume"}}, {"pending", []string{"retry_now", "retry_now"}},
			{"failed", []string{"replay"}}, {"delivered", []string{"replay"}},
		})
		m := pick(random, c.merchants)
		ids := c.list(ctx, m, "status="+wish.of)
		if len(ids) == 0 {
			continue
		}
		id := pick(random, ids)
		for _, verb := range wish.verbs {
			c.steerDelivery(ctx, m, id, verb)
			pause(ctx, between(random, 0, 2*time.Second))
		}
	}
}
