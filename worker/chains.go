package worker

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
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/treasury"
)

// A pricedChain also estimates what a transfer of a currency costs, in the network's own one.
type pricedChain interface {
	treasury.Chain
	TransferFee(ctx context.Context, currency money.PayoutCurrency) (money.Crypto, error)
}

// A LazyChain is a chain whose node may not be ready yet. The API process reads prices through it and must not wait
// for a node: nothing else there needs one.
type LazyChain struct {
	ID    string // CAIP-2
	name  string // for people
	ready atomic.Pointer[pricedChain]
	// jsonrpc.ErrNotReady: a repeat may succeed
	dial func(context.Context) (pricedChain, error)
}

// Chains are the chains of a mode by their network.
type Chains map[string]*LazyChain

// errNoNodeYet: the chain is configured, and its node was not ready since the process started.
var errNoNodeYet = errors.New("no node is ready yet")

func ethereumChain(o ethereum.Options) *LazyChain {
	dial := func(ctx context.Context) (pricedChain, error) { return ethereum.Open(ctx, o) }
	return &LazyChain{ID: ethereum.ChainName(o.ChainID), name: "Ethereum", dial: dial}
}

func bitcoinChain(o bitcoin.Options) *LazyChain {
	dial := func(ctx context.Context) (pricedChain, error) { return bitcoin.Open(ctx, o) }
	return &LazyChain{ID: bitcoin.ChainName(o.Network), name: "Bitcoin", dial: dial}
}

// Ready returns the chains whose nodes are ready.
func (all Chains) Ready() map[string]treasury.Chain {
	ready := map[string]treasury.Chain{}
	for network, c := range all {
		if chain := c.ready.Load(); chain != nil {
			ready[network] = *chain
		}
	}
	return ready
}

// missing returns an error that names the chains whose nodes are not ready.
func (all Chains) missing() error {
	var faults []error
	for _, c := range all {
		if c.ready.Load() == nil {
			faults = append(faults, c.notReady())
		}
	}
	return errors.Join(faults...)
}

// OpenSoon tries each node once before the first round of prices: the next round is 10 s later, and no payment is
// possible until then. A node that does not answer is opened later.
func (all Chains) OpenSoon(ctx context.Context, mode checkout.Mode) {
	first, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	for _, c := range all {
		if c.Open(first) != nil {
			go c.openLater(ctx, mode)
		}
	}
}

func (c *LazyChain) notReady() error { return fmt.Errorf("%s: %w", c.name, errNoNodeYet) }

// Open opens the chain. It returns jsonrpc.ErrNotReady when a repeat may succeed.
func (c *LazyChain) Open(ctx context.Context) error {
	chain, err := c.dial(ctx)
	if err == nil {
		c.ready.Store(&chain)
	}
	return err
}

// openOrLater opens the chain, later when its node is not ready. An error is a wrong setting.
func (c *LazyChain) openOrLater(ctx context.Context, mode checkout.Mode) error {
	err := c.Open(ctx)
	if errors.Is(err, jsonrpc.ErrNotReady) {
		go c.openLater(ctx, mode)
		err = nil
	}
	return err
}

// Await opens the chain as soon as its node is ready.
func (c *LazyChain) Await(ctx context.Context) error {
	for {
		err := c.Open(ctx)
		if !errors.Is(err, jsonrpc.ErrNotReady) {
			return err
		}
		slog.WarnContext(ctx, "waiting for "+c.name, "error", err)
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w (last answer: %w)", context.Cause(ctx), err)
		case <-time.After(time.Second):
		}
	}
}

// openLater opens the chain while the process does other work.
func (c *LazyChain) openLater(ctx context.Context, mode checkout.Mode) {
	if err := c.Await(ctx); err != nil && ctx.Err() == nil {
		slog.ErrorContext(ctx, c.name+" is not used", "mode", mode, "error", err)
	}
}

// CallContract implements rate.Caller.
func (c *LazyChain) CallContract(ctx context.Context, to string, data []byte) ([]byte, error) {
	chain := c.ready.Load()
	if chain == nil {
		return nil, c.notReady()
	}
	caller, ok := (*chain).(rate.Caller)
	if !ok {
		return nil, fmt.Errorf("%s has no contracts", c.name)
	}
	return caller.CallContract(ctx, to, data)
}

// TransferFee estimates what a transfer of a currency costs, in the network's own one.
func (c *LazyChain) TransferFee(ctx context.Context, currency money.PayoutCurrency) (money.Crypto, error) {
	chain := c.ready.Load()
	if chain == nil {
		return money.Crypto{}, c.notReady()
	}
	return (*chain).TransferFee(ctx, currency)
}
