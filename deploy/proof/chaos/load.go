package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"example.com/checkout/deploy/proof/chaos/invariant"
	"example.com/checkout/workflows/contract"
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
	{"pay late", 6, 2, func(ctx context.Context, c *chaos, s *scene) {
		pause(ctx, between(s.random, time.Second, 5*time.Second))
		c.pay(ctx, s.m, s.id, goodCard)
	}},
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
	{"expire × advance", 3, 2, race(endsBy(invariant.OpExpire), endsBy(invariant.OpAdvance), 30*time.Millisecond)},
	{"pay × pay", 3, 0, race(pays(goodCard), pays("4100000000000019"), 60*time.Millisecond)},
}

// story makes one step after another.
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

// pays pays with one of the cards.
func pays(from ...string) step {
	return func(ctx context.Context, c *chaos, s *scene) { c.pay(ctx, s.m, s.id, s.oneOf(from)) }
}

// oneOf chooses a card. One card alone takes no random number.
func (s *scene) oneOf(from []string) string {
	if len(from) == 1 {
		return from[0]
	}
	return from[s.random.IntN(len(from))]
}

// leave only reads the page.
func leave(ctx context.Context, c *chaos, s *scene) { c.readStatus(ctx, s.m, s.id) }

// endsBy asks for the session's end by an operation.
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

// nextKey returns a new Idempotency-Key.
func (c *chaos) nextKey() string { return fmt.Sprintf("key-%d", c.keys.Add(1)) }

// think is how long a customer at most waits before the next session.
const think = 500 * time.Millisecond

// work keeps sessions under way until ctx ends.
func (c *chaos) work(ctx context.Context) {
	var all sync.WaitGroup
	for i := range c.customers {
		random := rand.New(rand.NewPCG(c.seed, uint64(i)+1)) //nolint:gosec // the same seed must give the same numbers
		all.Go(func() {
			for ctx.Err() == nil {
				if c.live && random.IntN(10) < liveShare {
					c.liveSession(random)
				} else {
					c.session(random)
				}
				pause(ctx, between(random, 0, think))
			}
		})
	}
	all.Wait()
}

// draw chooses by weight, relative to the others.
func draw[T any](from []T, weight func(T) int, random *rand.Rand) T {
	var urn []T
	for _, one := range from {
		urn = append(urn, slices.Repeat([]T{one}, weight(one))...)
	}
	return urn[random.IntN(len(urn))]
}

func weightOf(s script) int { return s.weight }

// session plays one script to its end, even if the load ends before.
func (c *chaos) session(random *rand.Rand) {
	ctx, cancel := context.WithTimeout(c.life, 90*time.Second)
	defer cancel()
	chosen := draw(scripts, weightOf, random)
	m, key := c.merchants[random.IntN(len(c.merchants))], c.nextKey()
	orderID, own := "", ""
	if random.IntN(3) == 0 {
		orderID = "order-" + key
	}
	if random.IntN(10) == 0 {
		own = m.ownURL
	}

	body := m.terms(key, orderID, own)
	id, expiresAt := c.create(ctx, m, key, body, 20, chosen.api)
	if id == "" {
		return
	}
	if random.IntN(12) == 0 { // a client that did not see the answer
		c.create(ctx, m, key, body, 2)
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
	for ctx.Err() == nil {
		m := c.merchants[random.IntN(len(c.merchants))]
		act := func(filter string, verbs ...string) {
			ids := c.list(ctx, m, filter)
			if len(ids) == 0 {
				return
			}
			id := ids[random.IntN(len(ids))]
			for _, verb := range verbs {
				c.call(ctx, m, call{op: opSteer, id: id, method: http.MethodPost, path: "/v1/deliveries/" + id + "/" + verb})
				pause(ctx, between(random, 0, 2*time.Second))
			}
		}
		switch random.IntN(4) {
		case 0:
			act("status=pending", "hold", "resume")
		case 1:
			act("status=pending", "retry_now", "retry_now")
		case 2:
			act("status=failed", "replay")
		default:
			act("status=delivered", "replay")
		}
		pause(ctx, 300*time.Millisecond)
	}
}
