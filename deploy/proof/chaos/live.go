package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
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

func (w *world) anyAddress(random *rand.Rand) common.Address {
	return common.HexToAddress(pick(random, w.addresses[money.Ethereum]))
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
	c.addCanary("key of the card network", devstack.AcquirerKey)
	c.addCanary("secret of the card network's reports", d.WebhookSecret)
	c.addCanary("client secret of an intent", "_secret_")
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
	at := map[string]string{money.Ethereum: to, money.Bitcoin: onBitcoin}
	var addresses []merchant.PayoutAddress
	for _, currency := range invariant.LiveCurrencies {
		network := currency.Network()
		addresses = append(addresses, merchant.PayoutAddress{Currency: currency, Network: network, Address: at[network]})
	}
	m, err := c.addShop(ctx, store, name, checkout.ModeLive, addresses...)
	c.world.merchants = append(c.world.merchants, m)
	return m, err
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
	{"live: pay", 60, 0, pays(liveGoodCards...)},
	{"live: declined, then pay", 10, 0, story(pays(liveDeclined...), pays(liveGood))},
	{"live: the bank agrees", 10, 0, story(pays(liveAsks), atTheBank("confirm"))},
	{"live: the bank agrees and declines", 3, 0, story(pays(liveAsksThen), atTheBank("confirm"))},
	{"live: the bank refuses, then pay", 4, 0,
		story(pays(liveAsks), atTheBank("refuse"), waits(6*time.Second, 7*time.Second), pays(liveGood))},
	{"live: leave at the bank", 2, 0, pays(liveAsks)},
	{"live: leave", 3, 0, leave},
	{"live: expire, then pay", 4, 0, story(endsBy(invariant.OpExpire), pays(liveGood))},
	{"live: pay, refund", 10, 0, story(pays(liveRefundCards...), refunds)},
	{"live: pay, wait, refund", 12, 0,
		story(pays(liveRefundCards...), waits(5*time.Second, 20*time.Second), refunds)},
	{"live: pay, dispute, refund", 14, 0, story(pays(liveDisputedCards...), waits(0, 20*time.Second), refunds)},
	{"live: pay, wait, refund × dispute", 10, 0,
		story(pays(liveGood), waits(5*time.Second, 20*time.Second), race(refunds, disputed, 4*time.Second))},
	{"live: pay × expire", 8, 0, race(pays(liveGood), endsBy(invariant.OpExpire), 200*time.Millisecond)},
	{"live: pay × pay", 6, 0, race(pays(liveGood), pays(liveGood), 100*time.Millisecond)},
}

// liveSession creates a live session with a payout in one of the currencies, and plays a script with it. The amounts
// differ, so that one payout cannot pass for another.
func (c *chaos) liveSession(
	ctx context.Context, m *shop, chosen script, random *rand.Rand, currencies ...money.PayoutCurrency,
) {
	ctx, cancel := context.WithTimeout(ctx, longestSession)
	defer cancel()
	t := c.newTerms()
	cents := 20_00 + random.IntN(380_00)
	t.Amount = json.Number(fmt.Sprintf("%d.%02d", cents/100, cents%100))
	t.Currency = pick(random, []money.Currency{money.EUR, money.USD, money.GBP})
	t.PayoutCurrency = pick(random, currencies)
	if id, expiresAt := c.create(ctx, m, t, 20); id != "" {
		c.play(ctx, chosen, &scene{m, id, expiresAt, random})
	}
}

// cardToken returns the name of a typed card at the card network; "" when it does not answer.
func (c *chaos) cardToken(ctx context.Context, card string) string {
	cvc := "123"
	if strings.HasPrefix(card, "3") {
		cvc = "1234"
	}
	body := fmt.Sprintf(`{"number": %q, "exp_month": 12, "exp_year": 2040, "cvc": %q}`, card, cvc)
	id := ""
	until(ctx, 5*time.Second, time.Second, func() bool {
		header := http.Header{"Origin": {c.world.frame}}
		id = request(ctx, http.MethodPost, c.world.frame+"/tokens", header, body).field("id")
		return id != ""
	})
	return id
}

// atTheBank answers the bank's question once it is asked.
func atTheBank(said string) step {
	return func(ctx context.Context, c *chaos, s *scene) {
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
}
