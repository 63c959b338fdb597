package chains

import (
	"cmp"
	"context"
	"fmt"
	"math/big"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/rpc"

	"example.com/checkout/storage/pgtemp"
)

// ChainID is the chain id of an anvil unless Options say otherwise.
const ChainID = 31337

// Options say how an anvil runs. The zero value is a new chain on a free port that mines each transaction at once.
type Options struct {
	ChainID   uint64        // 0: ChainID
	Port      int           // of 127.0.0.1; 0: a free one
	StateFile string        // the chain is read from it and written to it at Stop; "": it is forgotten
	BlockTime time.Duration // a block at each of them, in whole seconds; 0: a block for each transaction
	NoMining  bool          // blocks come from Mine only
	Epoch     int           // slots in an epoch: a block is final 2 epochs later; 0: 1, so 2 blocks
}

// Anvil is a running node. It listens on 127.0.0.1 only, and it ends with this process at the
// latest. Accounts are unlocked: it signs for them.
type Anvil struct {
	URL      string
	ChainID  uint64
	Accounts []common.Address // ten, each with 10,000 ETH; everybody knows their keys

	node
	options Options
	program string // its path
	rpc     *rpc.Client
	started atomic.Uint64 // the last block of the state file, 0 for a new chain
}

// StartAnvil installs anvil if it is missing, and starts it. ctx bounds the start only. It returns ErrNotInstalled.
func StartAnvil(ctx context.Context, o Options) (*Anvil, error) {
	modules, err := Install(ctx)
	if err != nil {
		return nil, err
	}
	o.ChainID, o.Epoch = cmp.Or(o.ChainID, ChainID), cmp.Or(o.Epoch, 1)
	if o.Port == 0 {
		ports, err := pgtemp.FreePorts(1)
		if err != nil {
			return nil, err
		}
		o.Port = ports[0]
	}

	a := &Anvil{
		URL: "http://127.0.0.1:" + strconv.Itoa(o.Port), ChainID: o.ChainID, options: o,
		program: filepath.Join(modules, filepath.FromSlash(anvilPackage), "bin", "anvil"),
	}
	// With HTTP nothing is dialed yet, and there is nothing to close.
	if a.rpc, err = rpc.DialContext(ctx, a.URL); err != nil {
		return nil, err
	}
	if err = a.Start(ctx); err == nil {
		err = a.Call(ctx, &a.Accounts, "eth_accounts")
	}
	if err != nil {
		a.Kill()
		return nil, err
	}
	return a, nil
}

// Start starts the node again after Stop, at the same address and with the blocks that it had.
func (a *Anvil) Start(ctx context.Context) error {
	cmd := exec.Command(a.program, a.options.args()...) //nolint:gosec,noctx // G204: our program; it outlives ctx
	if err := a.start(ctx, cmd, syscall.SIGKILL, a.look); err != nil {
		return fmt.Errorf("start anvil: %w", err)
	}
	return nil
}

// args are anvil's arguments.
func (o Options) args() []string {
	args := []string{
		"--host", "127.0.0.1", "--port", strconv.Itoa(o.Port), "--silent",
		"--chain-id", strconv.FormatUint(o.ChainID, 10),
		"--block-base-fee-per-gas", "1000000000", // 1 gwei
		"--slots-in-an-epoch", strconv.Itoa(o.Epoch),
	}
	if o.StateFile != "" {
		args = append(args, "--state", o.StateFile, "--preserve-historical-states")
	}
	switch {
	case o.NoMining:
		args = append(args, "--no-mining")
	case o.BlockTime > 0:
		args = append(args, "--block-time", strconv.Itoa(int(o.BlockTime/time.Second)))
	}
	return args
}

// look checks that it is our anvil that answers on the port, and learns its last block.
func (a *Anvil) look(ctx context.Context) error {
	var id, last hexutil.Uint64
	if err := a.Call(ctx, &id, "eth_chainId"); err != nil {
		return err
	}
	if uint64(id) != a.ChainID {
		return fmt.Errorf("the node at %s has chain id %d: another program has the port", a.URL, id)
	}
	if err := a.Call(ctx, &last, "eth_blockNumber"); err != nil {
		return err
	}
	a.started.Store(uint64(last))
	return nil
}

// Call calls the node. result is a pointer, or nil.
func (a *Anvil) Call(ctx context.Context, result any, method string, args ...any) error {
	if err := a.rpc.CallContext(ctx, result, method, args...); err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	return nil
}

// Stop ends the node. It writes its state to the state file first, if it has one: after an hour hundreds of megabytes,
// and half of it is no state.
func (a *Anvil) Stop() error {
	if err := a.current().End(syscall.SIGTERM, 2*time.Minute); err != nil {
		return fmt.Errorf("anvil %w", err)
	}
	return nil
}

// Kill ends the node at once. A second call does nothing.
func (a *Anvil) Kill() { a.kill() }

// Mine adds blocks.
func (a *Anvil) Mine(ctx context.Context, blocks uint64) error {
	return a.Call(ctx, nil, "anvil_mine", hexutil.Uint64(blocks))
}

// Automine sets whether the node mines each transaction at once.
func (a *Anvil) Automine(ctx context.Context, on bool) error {
	return a.Call(ctx, nil, "evm_setAutomine", on)
}

// Drop removes a transaction from the pool.
func (a *Anvil) Drop(ctx context.Context, txHash string) error {
	return a.Call(ctx, nil, "anvil_dropTransaction", txHash)
}

// Reorg replaces the last blocks by as many others without their transactions. It refuses to replace blocks of before
// the node's start: anvil then forgets the code of contracts.
func (a *Anvil) Reorg(ctx context.Context, blocks uint64) error {
	var last hexutil.Uint64
	if err := a.Call(ctx, &last, "eth_blockNumber"); err != nil {
		return err
	}
	if started := a.started.Load(); started > 0 && uint64(last) <= started+blocks {
		return fmt.Errorf("the node has %d blocks since its start, too few to replace %d", uint64(last)-started, blocks)
	}
	if err := a.Call(ctx, nil, "anvil_reorg", blocks, []any{}); err != nil {
		return err
	}
	// The node's clock went back to the time of the last block that stayed.
	return a.Call(ctx, nil, "evm_setTime", time.Now().Unix())
}

// SetBaseFee sets the base fee of the next block, in wei.
func (a *Anvil) SetBaseFee(ctx context.Context, wei uint64) error {
	return a.Call(ctx, nil, "anvil_setNextBlockBaseFeePerGas", hexutil.Uint64(wei))
}

// SetBalance sets the ether of an account, in wei.
func (a *Anvil) SetBalance(ctx context.Context, account common.Address, wei *big.Int) error {
	return a.Call(ctx, nil, "anvil_setBalance", account, (*hexutil.Big)(wei))
}

// Impersonate lets Send send from an account whose key the node does not have.
func (a *Anvil) Impersonate(ctx context.Context, account common.Address) error {
	return a.Call(ctx, nil, "anvil_impersonateAccount", account)
}
