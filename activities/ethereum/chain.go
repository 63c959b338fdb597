// Package ethereum sends payouts in ETH, USDC and USDT. It implements treasury.Chain with one or two
// nodes and a signer.
//
// Nothing is decided by an error of a node: each node words its errors in its own way, and a refused transaction may
// already be mined. The account's nonce, the canonical blocks and the balances decide. Source:
// api/decisions/ethereum.md, "what a node's answer means".
package ethereum

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"example.com/checkout/activities/jsonrpc"
	"example.com/checkout/workflows/address"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/treasury"
)

// Options are the settings of a Chain.
type Options struct {
	RPCURLs  []string // one or two nodes, http or https; they may have a key in them
	ChainID  uint64   // 1 for the main network
	Treasury string   // the account's address
	// Tokens are the addresses of the contracts of USDC and USDT. A currency that is not in it cannot be paid out.
	Tokens map[money.PayoutCurrency]string
	// Signer has the account's key. A Chain without one signs nothing.
	Signer Signer
	// MaxFeeGwei is the highest price of a unit of gas, in gwei.
	MaxFeeGwei uint64
	// StuckFee is the fee that a transfer may reach while it blocks others, however small it is, in ETH. "" is 0.005.
	StuckFee string
	// Confirmations define a final block: "finalized", or a number of blocks from 1 on.
	Confirmations string
	// SanctionsOracle is the address of a contract with isSanctioned(address) returns (bool). "" is none.
	SanctionsOracle string
	// MaxHeadAge is the age at which a node's last block is too old. 0 is a minute. A simulated chain
	// that mines on demand needs more.
	MaxHeadAge time.Duration
}

// Chain implements treasury.Chain for Ethereum. Its methods may be called from several goroutines.
type Chain struct {
	nodes         []*jsonrpc.Node
	chainID       uint64
	treasury      common.Address
	tokens        map[money.PayoutCurrency]common.Address
	oracle        *common.Address // of sanctions; nil: none
	signer        Signer
	maxFee        *big.Int // wei for a unit of gas
	stuckFee      *big.Int // wei
	confirmations uint64   // 0: the network's own finality
	maxHeadAge    time.Duration
}

var _ treasury.Chain = (*Chain)(nil)

// Open checks the settings, the nodes, the tokens and the signer. It returns jsonrpc.ErrNotReady when a node
// may be ready later. Every other error is a wrong setting. No error holds a node's URL.
func Open(ctx context.Context, o Options) (*Chain, error) {
	c, err := newChain(o)
	if err == nil {
		err = c.checkNodes(ctx)
	}
	if err == nil {
		err = c.checkSigner(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("ethereum: %w", err)
	}
	return c, nil
}

// newChain reads the settings and makes no request.
func newChain(o Options) (*Chain, error) {
	c := &Chain{chainID: o.ChainID, signer: o.Signer, maxHeadAge: o.MaxHeadAge,
		tokens: map[money.PayoutCurrency]common.Address{}}
	if len(o.RPCURLs) < 1 || len(o.RPCURLs) > 2 {
		return nil, fmt.Errorf("there must be one or two nodes, not %d", len(o.RPCURLs))
	}
	for i, rawURL := range o.RPCURLs {
		n, err := jsonrpc.Dial("node "+strconv.Itoa(i+1), rawURL, jsonrpc.Options{})
		if err != nil {
			return nil, err
		}
		c.nodes = append(c.nodes, n)
	}

	var err error
	if c.treasury, err = address.Ethereum(o.Treasury); err != nil {
		return nil, fmt.Errorf("the treasury's address %w", err)
	}
	for currency, contract := range o.Tokens {
		if currency.Network() != money.Ethereum || currency == money.ETH {
			return nil, fmt.Errorf("%s is not a token of Ethereum", currency)
		}
		if c.tokens[currency], err = address.Ethereum(contract); err != nil {
			return nil, fmt.Errorf("the address of the token %s %w", currency, err)
		}
	}
	if o.SanctionsOracle != "" {
		oracle, err := address.Ethereum(o.SanctionsOracle)
		if err != nil {
			return nil, fmt.Errorf("the address of the sanctions oracle %w", err)
		}
		c.oracle = &oracle
	}
	if err := c.setLimits(o); err != nil {
		return nil, err
	}
	return c, nil
}

// setLimits reads the settings that are numbers.
func (c *Chain) setLimits(o Options) error {
	if o.MaxFeeGwei == 0 {
		return errors.New("the highest price of gas must be above 0 gwei")
	}
	c.maxFee = new(big.Int).Mul(new(big.Int).SetUint64(o.MaxFeeGwei), big.NewInt(1e9))

	stuck, err := money.ParseCrypto(cmp.Or(o.StuckFee, "0.005"), money.ETH)
	if err != nil {
		return errors.New("the fee for a stuck transfer must be a decimal number of ETH")
	}
	c.stuckFee = stuck.Units()

	c.maxHeadAge = cmp.Or(c.maxHeadAge, time.Minute)
	if o.Confirmations != "finalized" {
		n, err := strconv.ParseUint(o.Confirmations, 10, 32)
		if err != nil || n == 0 {
			return errors.New(`the number of confirmations must be "finalized" or a whole number from 1 on`)
		}
		c.confirmations = n
	}
	return nil
}

// checkNodes checks that all nodes are ready and on one chain, and that the tokens and the oracle are there.
func (c *Chain) checkNodes(ctx context.Context) error {
	if _, err := c.views(ctx); err != nil {
		return err
	}
	var genesis []common.Hash
	for _, n := range c.nodes {
		b, err := blockAt(ctx, n, 0)
		if err != nil {
			return err
		}
		genesis = append(genesis, b.Hash)
		if err := c.checkTokens(ctx, n); err != nil {
			return err
		}
		if err := c.checkOracle(ctx, n); err != nil {
			return err
		}
	}
	if genesis[0] != genesis[len(genesis)-1] {
		return fmt.Errorf("%w: they have the same chain id, but their first blocks differ", ErrWitnessesDisagree)
	}
	return nil
}

// checkTokens checks that the contracts of the tokens have as many decimals as the currencies.
func (c *Chain) checkTokens(ctx context.Context, n *jsonrpc.Node) error {
	for currency, token := range c.tokens {
		var answer hexutil.Bytes
		err := n.Call(ctx, &answer, "eth_call", message{To: &token, Data: decimalsCall}, "latest")
		if errors.Is(err, jsonrpc.ErrNotReady) {
			return err
		}
		decimals := new(big.Int).SetBytes(answer)
		if err != nil || len(answer) != wordSize {
			return fmt.Errorf("%s: at the address of %s is no token", n.Name, currency)
		}
		if places := currency.Places(); decimals.Cmp(big.NewInt(int64(places))) != 0 {
			return fmt.Errorf("%s: the token at the address of %s has %s decimals, not %d", n.Name, currency, decimals, places)
		}
	}
	return nil
}

// checkSigner checks that the signer's key is the treasury's.
func (c *Chain) checkSigner(ctx context.Context) error {
	if c.signer == nil {
		return nil
	}
	accounts, err := c.signer.Accounts(ctx)
	if err != nil {
		return fmt.Errorf("signer: %w", err)
	}
	if slices.Contains(accounts, c.treasury) {
		return nil
	}
	return fmt.Errorf("the signer has no key for the treasury's address %s (it has %s)", c.treasury, accounts)
}

// Account implements treasury.Chain.
func (c *Chain) Account() treasury.Account {
	return treasury.Account{Network: money.Ethereum, ChainID: ChainName(c.chainID), Address: c.treasury.Hex()}
}

// Batch implements treasury.Chain.
func (c *Chain) Batch() treasury.Batch { return treasury.Batch{Most: 1} }

// CallContract calls a contract at the latest block and returns its answer. It changes nothing. The second node answers
// when the first is not ready. The age of the block is not checked: the answer must have its own time, as a price has.
func (c *Chain) CallContract(ctx context.Context, to string, data []byte) ([]byte, error) {
	contract, err := address.Ethereum(to)
	if err != nil {
		return nil, fmt.Errorf("ethereum: the contract's address %w", err)
	}
	var faults []error
	for _, n := range c.nodes {
		var answer hexutil.Bytes
		err := n.Call(ctx, &answer, "eth_call", message{To: &contract, Data: data}, "latest")
		if err == nil {
			return bytes.Clone(answer), nil
		}
		faults = append(faults, err)
	}
	return nil, fmt.Errorf("ethereum: %w", errors.Join(faults...))
}

// ChainName returns the CAIP-2 name of an Ethereum chain, such as "eip155:1".
func ChainName(chainID uint64) string { return "eip155:" + strconv.FormatUint(chainID, 10) }
