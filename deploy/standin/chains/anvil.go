package chains

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/rpc"

	"example.com/checkout/storage/pgtemp"
)

// ChainID is the chain id of an anvil unless Options say otherwise.
const ChainID = 31337

// Options say how an anvil runs. The zero value is a new chain on a free port that mines each
// transaction at once.
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

	rpc     *rpc.Client
	cmd     *exec.Cmd
	done    chan struct{} // closed when the process has ended
	end     sync.Once
	started uint64 // the last block of the state file, 0 for a new chain
}

// StartAnvil installs anvil if it is missing, and starts it. ctx bounds the start only. It returns
// ErrNotInstalled.
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

	program := filepath.Join(modules, filepath.FromSlash(anvilPackage), "bin", "anvil")
	cmd := exec.Command(program, o.args()...) //nolint:gosec,noctx // G204: our program; it outlives ctx
	var output tail
	cmd.Stderr = &output
	exited, err := pgtemp.StartTied(cmd, syscall.SIGKILL)
	if err != nil {
		return nil, fmt.Errorf("start anvil: %w", err)
	}

	a := &Anvil{URL: "http://127.0.0.1:" + strconv.Itoa(o.Port), ChainID: o.ChainID, cmd: cmd, done: make(chan struct{})}
	go func() {
		for range exited { // how it ended is in its output
		}
		close(a.done)
	}()
	if err := a.ready(ctx); err != nil {
		a.Kill()
		return nil, fmt.Errorf("start anvil: %w\n%s", err, output.String())
	}
	return a, nil
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

// ready waits until the node answers, and learns its accounts.
func (a *Anvil) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	client, err := rpc.DialContext(ctx, a.URL)
	if err != nil {
		return err
	}
	a.rpc = client
	for {
		err := a.Call(ctx, &a.Accounts, "eth_accounts")
		if err == nil {
			return a.hasChain(ctx)
		}
		select {
		case <-a.done:
			return fmt.Errorf("it ended: %w", err)
		case <-ctx.Done():
			return fmt.Errorf("it does not answer: %w", err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// hasChain checks that it is our anvil that answers on the port, and notes its last block.
func (a *Anvil) hasChain(ctx context.Context) error {
	var id string
	if err := a.Call(ctx, &id, "eth_chainId"); err != nil {
		return err
	}
	if got, err := strconv.ParseUint(id, 0, 64); err != nil || got != a.ChainID {
		return fmt.Errorf("the node at %s has chain id %s: another program has the port", a.URL, id)
	}
	var last hexutil.Uint64
	err := a.Call(ctx, &last, "eth_blockNumber")
	a.started = uint64(last)
	return err
}

// Call asks the node. result is a pointer, or nil.
func (a *Anvil) Call(ctx context.Context, result any, method string, args ...any) error {
	if err := a.rpc.CallContext(ctx, result, method, args...); err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	return nil
}

// PID returns the process id.
func (a *Anvil) PID() int { return a.cmd.Process.Pid }

// Done returns a channel that is closed when the process has ended.
func (a *Anvil) Done() <-chan struct{} { return a.done }

// Stop ends the node. It writes its state to the state file first, if it has one.
func (a *Anvil) Stop() error {
	if err := a.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-a.done:
	case <-time.After(2 * time.Minute): // it writes its state, after an hour hundreds of megabytes; half of it is no state
		a.Kill()
		return errors.New("anvil did not stop within 2 minutes and was killed")
	}
	return nil
}

// Kill ends the node at once. A second call does nothing.
func (a *Anvil) Kill() {
	a.end.Do(func() {
		_ = a.cmd.Process.Kill() // an error means that it has already ended
		<-a.done
		if a.rpc != nil {
			a.rpc.Close()
		}
	})
}

// tail keeps the first bytes that anvil printed.
type tail struct {
	mu    sync.Mutex
	bytes bytes.Buffer
}

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	const enough = 4 << 10
	if t.bytes.Len() < enough {
		t.bytes.Write(p)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.bytes.String()
}
