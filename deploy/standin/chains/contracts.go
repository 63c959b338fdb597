package chains

import (
	"bytes"
	"context"
	_ "embed" // for contracts.json
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"

	"example.com/checkout/deploy/standin/build"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
)

// A Transaction is what Send sends.
type Transaction struct {
	From  common.Address
	To    *common.Address // nil: Data is a contract's creation code
	Value *big.Int        // in wei; nil: nothing
	Data  []byte
}

// Receipt is what a mined transaction did.
type Receipt struct {
	TxHash   string          `json:"transactionHash"`
	Block    hexutil.Uint64  `json:"blockNumber"`
	Status   hexutil.Uint64  `json:"status"`
	Contract *common.Address `json:"contractAddress"` // nil unless it deployed one
}

// Send sends a transaction from an unlocked account and returns its hash.
func (a *Anvil) Send(ctx context.Context, tx Transaction) (string, error) {
	args := map[string]any{"from": tx.From, "data": hexutil.Bytes(tx.Data)}
	if tx.To != nil {
		args["to"] = tx.To
	}
	if tx.Value != nil {
		args["value"] = (*hexutil.Big)(tx.Value)
	}
	var hash string
	err := a.Call(ctx, &hash, "eth_sendTransaction", args)
	return hash, err
}

// Receipt waits until a transaction is mined, for half a minute at most. It returns an error when the
// transaction was reverted.
func (a *Anvil) Receipt(ctx context.Context, txHash string) (Receipt, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		var r *Receipt
		if err := a.Call(ctx, &r, "eth_getTransactionReceipt", txHash); err != nil {
			return Receipt{}, err
		}
		if r != nil && r.Status != 1 {
			return *r, fmt.Errorf("transaction %s was reverted", txHash)
		}
		if r != nil {
			return *r, nil
		}
		select {
		case <-ctx.Done():
			return Receipt{}, fmt.Errorf("transaction %s is not mined: %w", txHash, context.Cause(ctx))
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// Deploy deploys a contract of deploy/standin/chains/contracts by its name and waits until it is mined. The
// arguments are its constructor's.
func (a *Anvil) Deploy(ctx context.Context, name string, args ...any) (at common.Address, err error) {
	defer checkout.Wrap(&err, "deploy %s", name)
	contract, _, packed, err := packCall(name, "", args...)
	if err != nil {
		return at, err
	}
	hash, err := a.Send(ctx, Transaction{From: a.Accounts[0], Data: append(contract.Creation, packed...)})
	if err != nil {
		return at, err
	}
	receipt, err := a.Receipt(ctx, hash)
	if err != nil {
		return at, err
	}
	return *receipt.Contract, nil
}

// Invoke calls a method of a contract in a transaction, from the first account, and waits until it is
// mined. name is the contract's in deploy/standin/chains/contracts.
func (a *Anvil) Invoke(ctx context.Context, name string, at common.Address, method string, args ...any) error {
	return a.InvokeFrom(ctx, a.Accounts[0], name, at, method, args...)
}

// InvokeFrom is Invoke from another unlocked account.
func (a *Anvil) InvokeFrom(
	ctx context.Context, from common.Address, name string, at common.Address, method string, args ...any,
) error {
	hash, err := a.SendCall(ctx, from, name, at, method, args...)
	if err == nil {
		_, err = a.Receipt(ctx, hash)
	}
	if err != nil {
		return fmt.Errorf("%s.%s: %w", name, method, err)
	}
	return nil
}

// SendCall is InvokeFrom that does not wait until the transaction is mined. It returns its hash.
func (a *Anvil) SendCall(
	ctx context.Context, from common.Address, name string, at common.Address, method string, args ...any,
) (txHash string, err error) {
	_, _, data, err := packCall(name, method, args...)
	if err != nil {
		return "", err
	}
	return a.Send(ctx, Transaction{From: from, To: &at, Data: data})
}

// Read calls a method of a contract that returns one value and changes nothing.
func (a *Anvil) Read(
	ctx context.Context, name string, at common.Address, method string, args ...any,
) (value any, err error) {
	defer checkout.Wrap(&err, "%s.%s", name, method)
	_, parsed, data, err := packCall(name, method, args...)
	if err != nil {
		return nil, err
	}
	var output hexutil.Bytes
	call := map[string]any{"to": at, "data": hexutil.Bytes(data)}
	if err := a.Call(ctx, &output, "eth_call", call, "latest"); err != nil {
		return nil, err
	}
	values, err := parsed.Unpack(method, output)
	if err != nil || len(values) == 0 {
		return nil, errors.Join(errors.New("no value"), err)
	}
	return values[0], nil
}

// Market is what the local stack needs on its chain besides ether.
type Market struct {
	USDC, USDT common.Address
	Feeds      map[string]common.Address // by description, such as "ETH / USD"
}

// Tokens returns the contracts by currency.
func (m Market) Tokens() map[money.PayoutCurrency]common.Address {
	return map[money.PayoutCurrency]common.Address{money.USDC: m.USDC, money.USDT: m.USDT}
}

// feedDecimals are those of Chainlink's feeds in US dollars.
const feedDecimals = 8

// deployFeeds deploys price feeds of every currency but the US dollar, always in the same order.
func (m *Market) deployFeeds(deploy func(name string, args ...any) (common.Address, error)) error {
	var prices [][2]string
	for _, c := range slices.Backward(money.PayoutCurrencies) {
		prices = append(prices, [2]string{string(c), c.TestPrice()})
	}
	for _, c := range money.Currencies[1:] {
		prices = append(prices, [2]string{string(c), c.TestPrice()})
	}
	for _, of := range prices {
		price, err := money.ParseUnits(of[1], feedDecimals)
		if err != nil {
			return err
		}
		name := of[0] + " / USD"
		if m.Feeds[name], err = deploy("Feed", uint8(feedDecimals), name, price); err != nil {
			return err
		}
	}
	return nil
}

// DeployMarket deploys both tokens and the price feeds unless the chain has them from an earlier run,
// and returns their addresses. They are the same on every new chain: an address follows from the first
// account and its nonce. Nothing else may be sent from that account before.
func (a *Anvil) DeployMarket(ctx context.Context) (Market, error) {
	m := Market{Feeds: map[string]common.Address{}}
	nonce := uint64(0)
	next := func(name string, args ...any) (common.Address, error) {
		at := crypto.CreateAddress(a.Accounts[0], nonce)
		nonce++
		var code hexutil.Bytes
		if err := a.Call(ctx, &code, "eth_getCode", at, "latest"); err != nil || len(code) > 0 {
			return at, err
		}
		got, err := a.Deploy(ctx, name, args...)
		if err == nil && got != at {
			err = fmt.Errorf("%s was deployed at %s instead of %s: the first account was used before", name, got, at)
		}
		return got, err
	}

	var err error
	if m.USDC, err = next("USDC"); err == nil {
		m.USDT, err = next("USDT")
	}
	if err == nil {
		err = m.deployFeeds(next)
	}
	return m, err
}

// Fund gives an account tokens, in their smallest unit. name is "USDC" or "USDT".
func (a *Anvil) Fund(ctx context.Context, name string, token, account common.Address, amount *big.Int) error {
	return a.Invoke(ctx, name, token, "mint", account, amount)
}

// A Contract is a compiled contract.
type Contract struct {
	ABI      json.RawMessage `json:"abi"`
	Creation hexutil.Bytes   `json:"creation"` // the code that a transaction deploys
	Runtime  hexutil.Bytes   `json:"runtime"`  // the code that is then at its address, without immutable values
}

//go:embed contracts.json
var compiledJSON []byte

// compiled are the contracts of deploy/standin/chains/contracts by name, as contracts.json has them.
func compiled(name string) (Contract, abi.ABI, error) {
	var all map[string]Contract
	if err := json.Unmarshal(compiledJSON, &all); err != nil {
		return Contract{}, abi.ABI{}, fmt.Errorf("contracts.json: %w", err)
	}
	c, ok := all[name]
	if !ok {
		return Contract{}, abi.ABI{}, fmt.Errorf("there is no contract %s in contracts.json", name)
	}
	parsed, err := abi.JSON(bytes.NewReader(c.ABI))
	if err != nil {
		return Contract{}, abi.ABI{}, fmt.Errorf("contract %s: %w", name, err)
	}
	return c, parsed, nil
}

// packCall returns a contract, and the data of a call of its method; "" is the constructor.
func packCall(name, method string, args ...any) (c Contract, parsed abi.ABI, data []byte, err error) {
	if c, parsed, err = compiled(name); err == nil {
		data, err = parsed.Pack(method, args...)
	}
	return c, parsed, data, err
}

// Compile compiles the Solidity sources of the repository and returns the contracts by name: those
// of deploy/standin/chains/contracts, and Probe of activities/ethereum. It returns ErrNotInstalled.
func Compile(ctx context.Context) (map[string]Contract, error) {
	if _, err := Install(ctx); err != nil {
		return nil, err
	}
	dir, err := build.Source("deploy/standin/chains", "contracts.json")
	if err != nil {
		return nil, err
	}
	sources, err := filepath.Glob(filepath.Join(dir, "contracts", "*.sol"))
	if err != nil {
		return nil, err
	}
	sources = append(sources, filepath.Join(dir, "..", "..", "..", "activities", "ethereum", "Probe.sol"))

	args := slices.Concat([]string{filepath.Join(dir, "npm", "compile.mjs")}, sources)
	node := exec.CommandContext(ctx, "node", args...) //nolint:gosec // G204: files of the source tree
	node.Stderr = os.Stderr
	output, err := node.Output()
	if err != nil {
		return nil, fmt.Errorf("compile the contracts: %w", err)
	}
	var all map[string]Contract
	err = json.Unmarshal(output, &all)
	return all, err
}
