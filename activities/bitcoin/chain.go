// Package bitcoin sends payouts in BTC. It implements treasury.Chain with the RPC and wallet of Bitcoin Core 28 or
// later, and with another node as the signer when the wallet has no keys.
//
// Nothing is decided by an error of a node. The blocks and the coins of the wallet decide. A transfer spends final
// coins only, which are its slot: all its versions spend the same ones, so one of them can be mined at most. Source:
// api/decisions/ethereum.md, "what a node's answer means".
package bitcoin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/btcsuite/btcd/chaincfg"

	"example.com/checkout/activities/jsonrpc"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/treasury"
)

// Options are the settings of a Chain.
type Options struct {
	Network string // as the node names it: main, test, testnet4, signet or regtest
	// The node: an http or https URL with the user, and the user's password.
	RPCURL, RPCPassword string
	// Wallet is the treasury's wallet in the node. Without one a Chain estimates fees only.
	Wallet string
	// Signs makes this process sign: with the wallet's keys, or with those of the signer, another node with a wallet of
	// the same name. The signer's wallet need not follow the chain.
	Signs                     bool
	SignerURL, SignerPassword string

	Confirmations uint64        // from which on a block is final; 0: 6
	FeeTarget     uint64        // blocks within which a transfer should be mined; 0: 6
	MaxFeeRate    uint64        // in satoshis for a virtual byte; 0: 150
	BatchInterval time.Duration // how long a payout waits for others
	MaxHeadAge    time.Duration // the age at which the last block is too old; 0: 2 hours, or none on regtest
}

// Chain implements treasury.Chain for Bitcoin. Its methods may be called from several goroutines.
type Chain struct {
	network       network
	node, signer  *jsonrpc.Node
	wallet        string // "": only calls that need none
	signs         bool
	confirmations uint64
	feeTarget     uint64
	maxRate       rate
	batchInterval time.Duration
	maxHeadAge    time.Duration
	address       string // of the account: the first one of the wallet

	mu   sync.Mutex
	ours map[string]bool // addresses: whether they are the wallet's
}

var _ treasury.Chain = (*Chain)(nil)

// A network is a blockchain of Bitcoin's.
type network struct {
	name    string
	genesis string // the hash of its first block
	params  *chaincfg.Params
}

var networks = []network{
	{"main", "000000000019d6689c085ae165831e934ff763ae46a2a6c172b3f1b60a8ce26f", &chaincfg.MainNetParams},
	{"test", "000000000933ea01ad0ee984209779baaec3ced90fa3f408719526f8d77f4943", &chaincfg.TestNet3Params},
	{"testnet4", "00000000da84f2bafbbc53dee25a72ae507ff4914b867c565be350b0da8bf043", &chaincfg.TestNet3Params},
	{"signet", "00000008819873e925422c1ff0f99f7cc9bbb232af63a077a480a3633bee1ef6", &chaincfg.TestNet3Params},
	{"regtest", "0f9188f13cb7b2c71f2a335e3a4fc328bf5beb436012afca590b1a11466e2206", &chaincfg.RegressionNetParams},
}

func networkOf(name string) (network, error) {
	var names []string
	for _, n := range networks {
		if n.name == name {
			return n, nil
		}
		names = append(names, n.name)
	}
	return network{}, fmt.Errorf("the network must be one of %s", strings.Join(names, ", "))
}

// ChainName returns the CAIP-2 name of a network, such as "bip122:000000000019d6689c085ae165831e93", "" for an unknown
// one.
func ChainName(name string) string {
	n, err := networkOf(name)
	if err != nil {
		return ""
	}
	const digits = 32 // as CAIP-2 has it
	return "bip122:" + n.genesis[:digits]
}

// Open checks the settings, the node, its wallet and the signer. It returns jsonrpc.ErrNotReady when a node may be
// ready later. Every other error is a wrong setting. No error holds a node's URL.
func Open(ctx context.Context, o Options) (*Chain, error) {
	c, err := newChain(o)
	if err == nil {
		_, err = c.view(ctx)
	}
	if err == nil && c.wallet != "" {
		err = errors.Join(c.checkWallet(ctx), c.checkPool(ctx))
	}
	if err == nil && c.signer != c.node {
		err = c.checkSigner(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("bitcoin: %w", err)
	}
	return c, nil
}

// newChain reads the settings and makes no request.
func newChain(o Options) (*Chain, error) {
	c := &Chain{
		wallet: o.Wallet, signs: o.Signs, confirmations: cmp.Or(o.Confirmations, 6), feeTarget: cmp.Or(o.FeeTarget, 6),
		maxRate:       perKilo * rate(cmp.Or(o.MaxFeeRate, 150)), //nolint:gosec // G115: checked by the settings
		batchInterval: o.BatchInterval, maxHeadAge: o.MaxHeadAge, ours: map[string]bool{},
	}
	var err error
	if c.network, err = networkOf(o.Network); err != nil {
		return nil, err
	}
	if c.network.name == "main" && c.confirmations < 3 {
		return nil, errors.New("a block with fewer than 3 confirmations may go away: on main that is too few")
	}
	if c.maxHeadAge == 0 && c.network.name != "regtest" {
		c.maxHeadAge = 2 * time.Hour
	}
	if c.node, err = dial("node", o.RPCURL, o.RPCPassword, o.Wallet); err != nil {
		return nil, err
	}
	if c.signer = c.node; o.SignerURL != "" {
		c.signer, err = dial("signer", o.SignerURL, o.SignerPassword, o.Wallet)
	}
	return c, err
}

// dial returns a node of Bitcoin Core 28 or later and makes no request. rawURL holds the user, and no password.
func dial(name, rawURL, password, wallet string) (*jsonrpc.Node, error) {
	o := jsonrpc.Options{Password: password, Faults: map[int]string{
		http.StatusUnauthorized: "it refuses the user or the password",
		http.StatusForbidden:    "it refuses this address or this call (rpcallowip, rpcwhitelist)",
	}}
	if u, err := url.Parse(rawURL); err == nil {
		if _, has := u.User.Password(); has {
			return nil, fmt.Errorf("%s: the password must be in its file, not in the URL", name)
		}
		o.User, u.User = u.User.Username(), nil
		rawURL = strings.TrimSuffix(u.String(), "/")
	}
	if wallet != "" {
		o.Path = "/wallet/" + url.PathEscape(wallet)
	}
	n, err := jsonrpc.Dial(name, rawURL, o)
	if err == nil && (o.User == "" || password == "") {
		return nil, fmt.Errorf("%s: the URL must have a user, and the password file a password", name)
	}
	return n, err
}

// A walletInfo describes a node's wallet.
type walletInfo struct {
	HasKeys       bool                   `json:"private_keys_enabled"`
	Descriptors   bool                   `json:"descriptors"`
	UnlockedUntil *int64                 `json:"unlocked_until"` // nil: it has no passphrase
	Scanning      any                    `json:"scanning"`       // false, or how far it is
	Processed     *struct{ Hash string } `json:"lastprocessedblock"`
}

// keys returns an error unless the wallet can sign.
func (w walletInfo) keys(n *jsonrpc.Node) error {
	switch {
	case !w.HasKeys:
		return fmt.Errorf("%s: the wallet has no keys: set a signer", n.Name)
	case w.UnlockedUntil != nil && *w.UnlockedUntil == 0:
		return fmt.Errorf("%s: %w: the wallet is locked (walletpassphrase)", n.Name, jsonrpc.ErrNotReady)
	}
	return nil
}

// checkWallet checks the node's wallet, and learns the account's address.
func (c *Chain) checkWallet(ctx context.Context) error {
	var (
		info walletInfo
		all  struct {
			Descriptors []struct {
				Descriptor string `json:"desc"`
				Active     bool   `json:"active"`
				Internal   bool   `json:"internal"`
			} `json:"descriptors"`
		}
	)
	if err := c.node.Ask(ctx, jsonrpc.Ask(&info, "getwalletinfo"), jsonrpc.Ask(&all, "listdescriptors")); err != nil {
		return err
	}
	if !info.Descriptors {
		return fmt.Errorf("%s: the wallet must be a descriptor wallet", c.node.Name)
	}
	if c.signs && c.signer == c.node {
		if err := info.keys(c.node); err != nil {
			return err
		}
	}
	for _, d := range all.Descriptors {
		if d.Active && !d.Internal && strings.HasPrefix(d.Descriptor, "wpkh(") {
			var first []string
			err := c.node.Call(ctx, &first, "deriveaddresses", d.Descriptor, []int{0, 0})
			if err == nil && len(first) == 1 {
				c.address = first[0]
				return nil
			}
			return err
		}
	}
	return fmt.Errorf("%s: the wallet has no active descriptor wpkh(…)", c.node.Name)
}

// checkPool checks that the node's pool restricts the children of a transfer. Bitcoin Core always does, without a field
// for it.
func (c *Chain) checkPool(ctx context.Context) error {
	var pool struct {
		Policy string `json:"truc_policy"`
	}
	err := c.node.Call(ctx, &pool, "getmempoolinfo")
	if err == nil && pool.Policy != "" && pool.Policy != "enforce" {
		err = fmt.Errorf("%s: its pool does not restrict transactions of version 3: set mempooltruc=enforce", c.node.Name)
	}
	return err
}

// checkSigner checks that the signer's wallet has keys, and that the account's address belongs to it.
func (c *Chain) checkSigner(ctx context.Context) error {
	if !c.signs {
		return nil
	}
	var (
		info  walletInfo
		first struct {
			Mine bool `json:"ismine"`
		}
	)
	err := c.signer.Ask(ctx, jsonrpc.Ask(&info, "getwalletinfo"), jsonrpc.Ask(&first, "getaddressinfo", c.address))
	if err == nil {
		err = info.keys(c.signer)
	}
	if err == nil && !first.Mine {
		err = errors.New("the signer's wallet does not have the treasury's address " + c.address)
	}
	return err
}

// Account implements treasury.Chain. The address is the first one of the wallet; the account has many.
func (c *Chain) Account() treasury.Account {
	return treasury.Account{Network: money.Bitcoin, ChainID: ChainName(c.network.name), Address: c.address}
}

// Batch implements treasury.Chain.
func (c *Chain) Batch() treasury.Batch {
	return treasury.Batch{Most: mostPayouts, Wait: c.batchInterval}
}

// Sanctioned implements treasury.Chain. Bitcoin has no list of its own.
func (c *Chain) Sanctioned(context.Context, string) (bool, error) { return false, nil }

// ownAddresses reports which addresses are the wallet's. That never changes.
func (c *Chain) ownAddresses(ctx context.Context, addresses ...string) (map[string]bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	const enough = 100_000 // addresses
	if len(c.ours) > enough {
		clear(c.ours)
	}
	got := make([]struct {
		Mine bool `json:"ismine"`
	}, len(addresses))
	var questions []jsonrpc.Question
	var unknown []int
	for i, address := range addresses {
		if _, known := c.ours[address]; !known {
			questions = append(questions, jsonrpc.Ask(&got[i], "getaddressinfo", address))
			unknown = append(unknown, i)
		}
	}
	if err := c.node.Ask(ctx, questions...); err != nil {
		return nil, err
	}
	for _, i := range unknown {
		c.ours[addresses[i]] = got[i].Mine
	}
	mine := map[string]bool{}
	for _, address := range addresses {
		mine[address] = c.ours[address]
	}
	return mine, nil
}
