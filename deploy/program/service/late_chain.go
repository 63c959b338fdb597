package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"example.com/checkout/activities/bitcoin"
	"example.com/checkout/activities/ethereum"
	"example.com/checkout/activities/jsonrpc"
	"example.com/checkout/activities/rate"
	"example.com/checkout/deploy/program/config"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/treasury"
)

// A pricedChain also estimates what a transfer of a currency costs, in the network's own one.
type pricedChain interface {
	treasury.Chain
	TransferFee(ctx context.Context, currency money.PayoutCurrency) (money.Crypto, error)
}

// lateChain is a chain that may not be ready yet. The API process reads prices through it and must not wait for a
// node: nothing else there needs one.
type lateChain struct {
	name   string // for people
	id     string // CAIP-2
	opened atomic.Pointer[pricedChain]
	// jsonrpc.ErrNotReady: a repeat may succeed
	dial func(context.Context) (pricedChain, error)
}

// lateChains are the chains of a mode by their network.
type lateChains map[string]*lateChain

// errNoNodeYet: the chain is configured, and its node was not ready since the process started.
var errNoNodeYet = errors.New("no node is ready yet")

// chainsOf returns the chains of the settings. It asks no node. Those of a process that signs nothing have no keys and,
// in the API, no wallet.
func chainsOf(n config.Networks, signs bool) (lateChains, error) {
	all := lateChains{}
	eth, err := ethereumOf(n, signs)
	if err != nil {
		return nil, err
	}
	all[money.Ethereum] = eth
	if n.Bitcoin() {
		if all[money.Bitcoin], err = bitcoinOf(n, signs); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func ethereumOf(n config.Networks, signs bool) (*lateChain, error) {
	var signer ethereum.Signer
	if signs {
		var err error
		if signer, err = signerOf(n); err != nil {
			return nil, err
		}
	}
	dial := func(ctx context.Context) (pricedChain, error) {
		return ethereum.Open(ctx, ethereum.Options{
			RPCURLs: n.EthereumRPCURLs, ChainID: n.EthereumChainID, Treasury: n.EthereumTreasury,
			Tokens: n.Tokens(), Signer: signer, MaxFeeGwei: n.EthereumMaxFeeGwei, Confirmations: n.EthereumConfirmations,
			SanctionsOracle: n.SanctionsOracle,
		})
	}
	return &lateChain{name: "Ethereum", id: ethereum.ChainName(n.EthereumChainID), dial: dial}, nil
}

// signerOf returns what has the treasury's key.
func signerOf(n config.Networks) (ethereum.Signer, error) {
	if n.EthereumKeystore != "" {
		password, err := n.KeystorePassword()
		if err != nil {
			return nil, err
		}
		return ethereum.OpenKeystore(n.EthereumKeystore, password)
	}
	return ethereum.NewRemoteSigner(n.EthereumSignerURL)
}

func bitcoinOf(n config.Networks, signs bool) (*lateChain, error) {
	password, signerPassword, err := n.BitcoinPasswords()
	if err != nil {
		return nil, err
	}
	o := bitcoin.Options{
		Network: n.BitcoinNetwork, RPCURL: n.BitcoinRPCURL, RPCPassword: password, Wallet: n.BitcoinWallet, Signs: signs,
		SignerURL: n.BitcoinSignerURL, SignerPassword: signerPassword, Confirmations: n.BitcoinConfirmations,
		FeeTarget: n.BitcoinFeeTarget, MaxFeeRate: n.BitcoinMaxFeeRate, BatchInterval: n.BitcoinBatchInterval,
	}
	dial := func(ctx context.Context) (pricedChain, error) { return bitcoin.Open(ctx, o) }
	return &lateChain{name: "Bitcoin", id: bitcoin.ChainName(n.BitcoinNetwork), dial: dial}, nil
}

// opened returns the chains that are ready.
func (all lateChains) opened() map[string]treasury.Chain {
	ready := map[string]treasury.Chain{}
	for network, c := range all {
		if chain := c.opened.Load(); chain != nil {
			ready[network] = *chain
		}
	}
	return ready
}

// missing returns an error that names the chains that are not ready.
func (all lateChains) missing() error {
	var faults []error
	for _, c := range all {
		if c.opened.Load() == nil {
			faults = append(faults, c.notYet())
		}
	}
	return errors.Join(faults...)
}

// openSoon tries each node once before the first round of prices: the next round is 10 s later, and no payment is
// possible until then. A node that does not answer is opened later.
func (all lateChains) openSoon(ctx context.Context, mode checkout.Mode) {
	first, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	for _, c := range all {
		if c.try(first) != nil {
			go c.openLater(ctx, mode)
		}
	}
}

func (c *lateChain) notYet() error { return fmt.Errorf("%s: %w", c.name, errNoNodeYet) }

// try opens the chain. It returns jsonrpc.ErrNotReady when a repeat may succeed.
func (c *lateChain) try(ctx context.Context) error {
	chain, err := c.dial(ctx)
	if err == nil {
		c.opened.Store(&chain)
	}
	return err
}

// tryOrLater opens the chain, later when its node is not ready. An error is a wrong setting.
func (c *lateChain) tryOrLater(ctx context.Context, mode checkout.Mode) error {
	err := c.try(ctx)
	if errors.Is(err, jsonrpc.ErrNotReady) {
		go c.openLater(ctx, mode)
		err = nil
	}
	return err
}

// open waits for the node.
func (c *lateChain) open(ctx context.Context) error {
	return wait(ctx, c.name, func() error { return c.try(ctx) },
		func(err error) bool { return errors.Is(err, jsonrpc.ErrNotReady) })
}

// openLater waits for the node while the process does other work.
func (c *lateChain) openLater(ctx context.Context, mode checkout.Mode) {
	if err := c.open(ctx); err != nil && ctx.Err() == nil {
		slog.ErrorContext(ctx, c.name+" is not used", "mode", mode, "error", err)
	}
}

// CallContract implements rate.Caller.
func (c *lateChain) CallContract(ctx context.Context, to string, data []byte) ([]byte, error) {
	chain := c.opened.Load()
	if chain == nil {
		return nil, c.notYet()
	}
	caller, ok := (*chain).(rate.Caller)
	if !ok {
		return nil, fmt.Errorf("%s has no contracts", c.name)
	}
	return caller.CallContract(ctx, to, data)
}

// transferFee asks the chain when it is ready.
func (c *lateChain) transferFee(ctx context.Context, currency money.PayoutCurrency) (money.Crypto, error) {
	chain := c.opened.Load()
	if chain == nil {
		return money.Crypto{}, c.notYet()
	}
	return (*chain).TransferFee(ctx, currency)
}
