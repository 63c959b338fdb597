package main

import (
	"context"
	"fmt"
	"hash/fnv"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"example.com/checkout/deploy/proof/chaos/invariant"
	"example.com/checkout/deploy/standin/devstack"
	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/webhook"
)

// shop is one merchant under load, with receivers that misbehave.
type shop struct {
	id, key   string
	receivers []*devstack.Receiver
	ownURL    string // for a session's webhook_url
	live      bool
}

// shop returns the merchant with an id; nil for the demo merchant.
func (c *chaos) shop(id string) *shop {
	for _, m := range slices.Concat(c.merchants, c.world.merchants) {
		if m.id == id {
			return m
		}
	}
	return nil
}

const merchants = 5

func (c *chaos) addMerchants(ctx context.Context) error {
	store, err := c.rig.stack.Demo.OpenStore(ctx, c.rig.databaseURL, 2)
	if err != nil {
		return err
	}
	defer store.Close()
	canary, err := freeAddress()
	if err != nil {
		return err
	}
	if c.stopCanary, err = devstack.StartCanary(canary, c.rig.stack.ReceiverLog); err != nil {
		return err
	}
	c.canary = "http://" + canary + "/"
	if err := c.addCanaries(); err != nil {
		return err
	}
	for i := range merchants {
		m, err := c.addMerchant(ctx, store, i)
		if err != nil {
			return err
		}
		c.merchants = append(c.merchants, m)
	}
	if c.live {
		if err := c.addLiveMerchants(ctx, store); err != nil {
			return err
		}
	}
	return c.agreeOnTerms(ctx)
}

// addCanary notes a value that must not leak. The tables may hold it.
func (c *chaos) addCanary(name, value string, tables ...string) {
	c.canaries = append(c.canaries, invariant.Canary{Name: name, Value: value, Tables: tables})
}

// addCanaries notes the secrets of the stack and its customers that must not leak.
func (c *chaos) addCanaries() error {
	u, err := url.Parse(c.rig.databaseURL)
	if err != nil {
		return err
	}
	password, _ := u.User.Password()
	_, master, _ := strings.Cut(c.rig.stack.Demo.MasterKeys, ":")
	c.addCanary("database password", password)
	c.addCanary("master key", master)
	c.addCanary("e-mail address", customerEmail, "checkout_session", "transaction", "event")
	for _, h := range invariant.HeaderCanaries {
		c.canaries = append(c.canaries, h.Canary)
	}
	typed := slices.Concat(cards, refundCards, disputedCards)
	if c.live {
		typed = slices.Concat(typed, liveGoodCards, liveDeclined, []string{liveAsks, liveAsksThen}, liveDisputedCards)
	}
	for _, card := range slices.Compact(slices.Sorted(slices.Values(typed))) {
		c.addCanary("card number ending in "+card[len(card)-4:], card)
	}
	return nil
}

func (c *chaos) addShop(
	ctx context.Context, store *storage.Store, name string, mode checkout.Mode, addresses ...merchant.PayoutAddress,
) (*shop, error) {
	owner, key, err := devstack.AddMerchant(ctx, store, name, mode, addresses...)
	c.addCanary("key of "+owner.MerchantID, strings.TrimPrefix(key, "sk_"+string(mode)+"_"))
	return &shop{id: owner.MerchantID, key: key, live: mode.Live()}, err
}

// addMerchant creates a merchant with two registrations for all events. The last merchant gets a
// third one, at an address without a listener.
func (c *chaos) addMerchant(ctx context.Context, store *storage.Store, i int) (*shop, error) {
	m, err := c.addShop(ctx, store, fmt.Sprintf("Shop %d", i+1), checkout.ModeTest,
		merchant.PayoutAddress{Currency: money.USDC, Network: money.Ethereum, Address: "sandbox:shop"})
	if err != nil {
		return nil, err
	}
	first := webhook.NewSecret()
	if err := c.addEndpoint(ctx, store, m, first, c.startReceiver); err != nil {
		return nil, err
	}
	time.Sleep(2 * time.Millisecond) // the oldest registration's secret signs for a session's own address
	if err := c.addEndpoint(ctx, store, m, webhook.NewSecret(), c.startReceiver); err != nil {
		return nil, err
	}
	if i == merchants-1 {
		if err := c.addEndpoint(ctx, store, m, webhook.NewSecret(), nobody, webhook.CheckoutFailed); err != nil {
			return nil, err
		}
	}
	m.ownURL, err = c.startReceiver(m, first)
	return m, err
}

func (c *chaos) addEndpoint(
	ctx context.Context, store *storage.Store, m *shop, secret string,
	listen func(*shop, string) (address string, err error), types ...webhook.EventType,
) error {
	c.addCanary("webhook secret of "+m.id, strings.TrimPrefix(secret, "whsec_"))
	c.addCanary("digest of a webhook secret of "+m.id, string(webhook.SecretDigest(secret)))
	address, err := listen(m, secret)
	if err != nil {
		return err
	}
	owner := checkout.Owner{MerchantID: m.id, Mode: checkout.ModeTest}
	_, err = devstack.AddEndpoint(ctx, store, owner, address, secret, types...)
	return err
}

func nobody(*shop, string) (address string, err error) {
	address, err = freeAddress()
	return "http://" + address + "/webhook", err
}

func (c *chaos) startReceiver(m *shop, secret string) (address string, err error) {
	if address, err = freeAddress(); err != nil {
		return "", err
	}
	r, err := devstack.StartReceiver(address, secret)
	if err != nil {
		return "", err
	}
	r.LogTo(c.rig.stack.ReceiverLog)
	r.ReplyBy(c.reply)
	m.receivers = append(m.receivers, r)
	return "http://" + address + "/webhook", nil
}

// reply chooses a receiver's reaction to a request. The delivery's id decides, so that the same
// seed and ids give the same reactions.
func (c *chaos) reply(a devstack.Arrival) devstack.Reply {
	c.lookForCanaries(a)
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(a.Delivery)) // never fails
	kind := sum.Sum32() % 100
	attempt, _ := strconv.Atoi(a.Attempt) // 0 when the header is missing or malformed
	if c.quietReceivers.Load() {
		attempt += 100 // after the faults, stop misbehaving
	}
	switch first := attempt <= 1; {
	case kind < 8: // accepts attempt 2 to 6
		if attempt < 2+int(kind%5) {
			return devstack.Reply{Status: http.StatusInternalServerError}
		}
	case kind < 11: // never accepts
		return devstack.Reply{Status: http.StatusServiceUnavailable}
	case kind < 12 && first:
		return devstack.Reply{Status: http.StatusOK, After: 9500 * time.Millisecond}
	case kind < 13 && first: // hangs
		return devstack.Reply{Status: http.StatusOK, After: 20 * time.Second}
	case kind < 16 && first:
		return devstack.Reply{Status: http.StatusOK, Reset: true}
	case kind < 18 && first:
		return devstack.Reply{Status: http.StatusFound, Location: c.canary}
	case kind < 20 && first:
		return devstack.Reply{Status: http.StatusTooManyRequests}
	case kind < 30:
		return devstack.Reply{Status: http.StatusOK, After: 300 * time.Millisecond}
	}
	return devstack.Reply{Status: http.StatusOK}
}

// lookForCanaries notes a caller's headers that reached a receiver.
func (c *chaos) lookForCanaries(a devstack.Arrival) {
	got := fmt.Sprint(a.Header, string(a.Body))
	for _, h := range invariant.HeaderCanaries {
		if strings.Contains(got, h.Value) {
			c.mu.Lock()
			c.leaks = append(c.leaks, invariant.Leak{Canary: h.Name, Where: "delivery " + a.Delivery, Times: 1})
			c.mu.Unlock()
		}
	}
}
