package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/btcsuite/btcd/btcutil"
	"github.com/btcsuite/btcd/chaincfg"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"example.com/checkout/deploy/proof/chaos/invariant"
	"example.com/checkout/deploy/standin/acquirer"
	"example.com/checkout/deploy/standin/devstack"
	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/money"
)

const (
	liveShare     = 7 // of ten sessions of a run with live mode
	liveMerchants = 4
	// float is what the treasury has of each currency at first, in US dollars. It is soon used up:
	// payouts then wait for a top-up.
	float = 3000
)

// Test cards of the double. Source: docs.stripe.com/testing.
const (
	liveGood     = "4242424242424242"
	liveAsks     = "4000000000003220" // the bank asks the customer
	liveAsksThen = "4000008260003178" // and declines afterwards
)

var (
	liveGoodCards = []string{liveGood, "5555555555554444", "378282246310005", "4000002760000016"}
	liveDeclined  = []string{"4000000000000002", "4000000000009995", "4000000000000069", "4100000000000019"}
)

// world is what the run knows about live mode.
type world struct {
	merchants []*shop
	addresses map[string][]string // of payouts, by network; only payouts pay them
	card      *acquirer.Acquirer
	frame     string // origin of the form's frame

	looked, toppedUp time.Time // at the end of the load

	enemy    enemy
	besieged atomic.Bool // the enemy acts

	backup sync.RWMutex        // an operator makes and restores it: nobody is given money back meanwhile
	chosen map[string][]string // flags of treasury recover, by network

	mu    sync.Mutex
	siege invariant.Siege
}

// updateSiege changes the record of attacks and restores.
func (w *world) updateSiege(change func(*invariant.Siege)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(&w.siege)
}

// sources returns the witnesses of live mode; nil without it.
func (w *world) sources(d *devstack.LiveDouble) *invariant.LiveSources {
	if d == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return &invariant.LiveSources{Double: d, Destinations: w.addresses, Siege: w.siege}
}

// anyAddress is a payout address of a merchant.
func (w *world) anyAddress(random *rand.Rand) common.Address {
	all := w.addresses[money.Ethereum]
	return common.HexToAddress(all[random.IntN(len(all))])
}

// addLiveMerchants creates merchants with a live key. They have no registrations: live deliveries
// keep the retry schedule of production.
func (c *chaos) addLiveMerchants(ctx context.Context, store *storage.Store) error {
	d := c.rig.stack.Live
	script, err := url.Parse(d.Acquirer.ScriptURL())
	if err != nil {
		return err
	}
	c.world.siege.Known = map[string]invariant.LostPayout{}
	c.world.card, c.world.frame = d.Acquirer, "http://"+script.Host
	c.canaries = append(c.canaries,
		invariant.Canary{Name: "key of the card network", Value: devstack.AcquirerKey},
		invariant.Canary{Name: "secret of the card network's reports", Value: d.WebhookSecret},
		invariant.Canary{Name: "client secret of an intent", Value: "_secret_"},
	)
	for _, card := range slices.Concat(liveGoodCards, liveDeclined, []string{liveAsks, liveAsksThen}) {
		if !slices.Contains(cards, card) {
			c.canaries = append(c.canaries, invariant.Canary{Name: "card number ending in " + card[len(card)-4:], Value: card})
		}
	}
	c.world.addresses, c.world.chosen = map[string][]string{}, map[string][]string{}
	for i := range liveMerchants {
		to := common.BytesToAddress(c.nobody(i)).Hex()
		c.world.addresses[money.Ethereum] = append(c.world.addresses[money.Ethereum], to)
		if _, err := c.addLiveMerchant(ctx, store, fmt.Sprintf("Live shop %d", i+1), to); err != nil {
			return err
		}
	}
	return c.addEnemy(ctx, store)
}

// nobody returns the hash of a key that nobody has. Every run has new ones.
func (c *chaos) nobody(i int) []byte { return crypto.Keccak256(fmt.Append(nil, c.seed, i, c.began)) }

// addLiveMerchant creates a merchant with a live key, who gets all payouts on Ethereum at one address, and those on
// Bitcoin at an address of another kind than other merchants.
func (c *chaos) addLiveMerchant(ctx context.Context, store *storage.Store, name, to string) (*shop, error) {
	number := len(c.world.merchants)
	onBitcoin, err := bitcoinAddress(number, c.nobody(number))
	if err != nil {
		return nil, err
	}
	c.world.addresses[money.Bitcoin] = append(c.world.addresses[money.Bitcoin], onBitcoin)
	var addresses []merchant.PayoutAddress
	for _, currency := range invariant.LiveCurrencies {
		address := to
		if currency.Network() == money.Bitcoin {
			address = onBitcoin
		}
		addresses = append(addresses, merchant.PayoutAddress{
			Currency: currency, Network: currency.Network(), Address: address,
		})
	}
	owner, key, err := devstack.AddMerchant(ctx, store, name, checkout.ModeLive, addresses...)
	if err != nil {
		return nil, err
	}
	m := &shop{id: owner.MerchantID, key: key, live: true}
	c.canaries = append(
		c.canaries, invariant.Canary{Name: "live key of " + m.id, Value: strings.TrimPrefix(m.key, "sk_live_")},
	)
	c.world.merchants = append(c.world.merchants, m)
	return m, nil
}

// bitcoinAddress returns an address of a hash of 32 bytes: the numbers count the kinds.
func bitcoinAddress(number int, hash []byte) (string, error) {
	var (
		address btcutil.Address
		err     error
		network = &chaincfg.RegressionNetParams
	)
	switch number % 5 {
	case 0:
		address, err = btcutil.NewAddressWitnessPubKeyHash(hash[:20], network)
	case 1:
		address, err = btcutil.NewAddressTaproot(hash, network)
	case 2:
		address, err = btcutil.NewAddressPubKeyHash(hash[:20], network)
	case 3:
		address, err = btcutil.NewAddressScriptHashFromHash(hash[:20], network)
	default:
		address, err = btcutil.NewAddressWitnessScriptHash(hash, network)
	}
	if err != nil {
		return "", err
	}
	return address.EncodeAddress(), nil
}

// liveScripts are the stories of live sessions. No live session can be advanced, and its time of one
// hour is longer than a run: a merchant ends it early.
var liveScripts = []script{
	{"live: pay", 60, 0, paysLive(liveGoodCards...)},
	{"live: declined, then pay", 10, 0, story(paysLive(liveDeclined...), paysLive(liveGood))},
	{"live: the bank agrees", 10, 0, story(paysLive(liveAsks), atTheBank("confirm"))},
	{"live: the bank agrees and declines", 3, 0, story(paysLive(liveAsksThen), atTheBank("confirm"))},
	{"live: the bank refuses, then pay", 4, 0,
		story(paysLive(liveAsks), atTheBank("refuse"), waits(6*time.Second), paysLive(liveGood))},
	{"live: leave at the bank", 2, 0, paysLive(liveAsks)},
	{"live: leave", 3, 0, leave},
	{"live: expire, then pay", 4, 0, story(endsBy(invariant.OpExpire), paysLive(liveGood))},
	{"live: pay × expire", 8, 0, race(paysLive(liveGood), endsBy(invariant.OpExpire), 200*time.Millisecond)},
	{"live: pay × pay", 6, 0, race(paysLive(liveGood), paysLive(liveGood), 100*time.Millisecond)},
}

func paysLive(from ...string) step {
	return func(ctx context.Context, c *chaos, s *scene) { c.payLive(ctx, s, s.oneOf(from)) }
}

func atTheBank(said string) step {
	return func(ctx context.Context, c *chaos, s *scene) { c.atTheBank(ctx, s, said) }
}

func waits(d time.Duration) step {
	return func(ctx context.Context, _ *chaos, _ *scene) { pause(ctx, d) }
}

// liveSession plays one live script to its end, even if the load ends before.
func (c *chaos) liveSession(random *rand.Rand) {
	ctx, cancel := context.WithTimeout(c.life, 90*time.Second)
	defer cancel()
	network := []string{money.Ethereum, money.Bitcoin}[random.IntN(2)]
	c.playLive(ctx, draw(liveScripts, weightOf, random), random, invariant.CurrenciesOn(network)...)
}

// playLive creates a live session with a payout in one of the currencies, and plays a script with it.
func (c *chaos) playLive(ctx context.Context, chosen script, random *rand.Rand, currencies ...money.PayoutCurrency) {
	m, key := c.world.merchants[random.IntN(len(c.world.merchants))], c.nextKey()
	body := liveTerms(key, currencies[random.IntN(len(currencies))], random)
	id, expiresAt := c.create(ctx, m, key, body, 20)
	if id == "" {
		return
	}
	c.play(ctx, chosen, &scene{m, id, expiresAt, random})
}

// liveTerms returns the body of a request that creates a live session. The amounts differ, so that
// one payout cannot pass for another.
func liveTerms(key string, payout money.PayoutCurrency, random *rand.Rand) string {
	cents := 20_00 + random.IntN(380_00)
	return fmt.Sprintf(`{"amount": %d.%02d, "currency": %q, "payout_currency": %q, "metadata": {"key": %q}}`,
		cents/100, cents%100, []string{"EUR", "USD", "GBP"}[random.IntN(3)], payout, key)
}

// payLive types the card into the card network's frame and sends the page's form with the
// confirmation token, as the page's script does.
func (c *chaos) payLive(ctx context.Context, s *scene, card string) {
	token := c.cardToken(ctx, card)
	if token == "" {
		return // the card network is away, and the customer gives up
	}
	c.sendForm(ctx, s.m, s.id, url.Values{"email": {customerEmail}, "confirmation_token": {token}})
	c.readStatus(ctx, s.m, s.id)
}

// cardToken returns the name of a typed card at the card network; "" when it does not answer.
func (c *chaos) cardToken(ctx context.Context, card string) string {
	text, err := json.Marshal(map[string]any{"number": card, "exp_month": 12, "exp_year": 2040, "cvc": cvcOf(card)})
	if err != nil {
		return ""
	}
	id := ""
	until(ctx, 5*time.Second, time.Second, func() bool {
		header := http.Header{"Origin": {c.world.frame}}
		id = request(ctx, http.MethodPost, c.world.frame+"/tokens", header, string(text)).field("id")
		return id != ""
	})
	return id
}

func cvcOf(card string) string {
	if strings.HasPrefix(card, "3") {
		return "1234"
	}
	return "123"
}

// atTheBank answers the bank's question once it is asked.
func (c *chaos) atTheBank(ctx context.Context, s *scene, said string) {
	var address string
	asked := until(ctx, 10*time.Second, time.Second, func() (is bool) {
		address, _ = query[string](ctx, c.rig, `
			SELECT coalesce(max(action_url), '') FROM transaction WHERE session_id = $1 AND status = 'processing'`, s.id)
		return address != "" // without PostgreSQL it is not known yet
	})
	if asked {
		c.answerBank(ctx, s.m, s.id, address, said)
		c.readStatus(ctx, s.m, s.id)
	}
}
