package chains

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/btcsuite/btcd/wire"
	"github.com/ethereum/go-ethereum/rpc"

	"example.com/checkout/storage/pgtemp"
)

// BitcoinOptions say how a Bitcoin node runs. The zero value is a new chain on a free port.
type BitcoinOptions struct {
	Dir  string   // of its files; "": one that Close removes
	Port int      // of 127.0.0.1; 0: a free one
	Args []string // more of bitcoind's arguments

	BlockTime time.Duration // a block at each of them; 0: blocks come from Mine only
}

// Bitcoin is a running node of a chain of its own (regtest), with wallets. It listens on 127.0.0.1 only, knows no other
// node, and ends with this process at the latest. Wallets send nothing by themselves.
type Bitcoin struct {
	URL            string // without the user and its password
	User, Password string

	options   BitcoinOptions
	program   knots
	temporary bool

	mining sync.Mutex // no block comes while others are replaced
	empty  atomic.Bool

	node
}

const bitcoinUser = "checkout"

// Miner is the wallet with the rewards of the blocks.
const Miner = "miner"

// StartBitcoin unpacks the node if it is missing, and starts it. ctx bounds the start only. It returns ErrNoKnots.
func StartBitcoin(ctx context.Context, o BitcoinOptions) (*Bitcoin, error) {
	program, err := installKnots(ctx)
	if err != nil {
		return nil, err
	}
	b := &Bitcoin{User: bitcoinUser, Password: rand.Text(), options: o, program: program}
	if o.Dir == "" {
		b.temporary = true
		if b.options.Dir, err = os.MkdirTemp("", "checkout-bitcoin-"); err != nil {
			return nil, err
		}
	}
	if o.Port == 0 {
		ports, err := pgtemp.FreePorts(1)
		if err != nil {
			return nil, err
		}
		b.options.Port = ports[0]
	}
	b.URL = "http://127.0.0.1:" + strconv.Itoa(b.options.Port)
	if err = b.Start(ctx); err == nil {
		err = b.OpenWallet(ctx, Miner)
	}
	if err != nil {
		b.Close()
		return nil, err
	}
	return b, nil
}

// Start starts the node again after Stop. args are added to its arguments.
func (b *Bitcoin) Start(ctx context.Context, args ...string) error {
	if err := os.MkdirAll(b.options.Dir, 0o700); err != nil {
		return err
	}
	// The password is in a file: everybody sees a program's arguments.
	secrets := fmt.Sprintf("[regtest]\nrpcuser=%s\nrpcpassword=%s\n", b.User, b.Password)
	if err := os.WriteFile(filepath.Join(b.options.Dir, "bitcoin.conf"), []byte(secrets), 0o600); err != nil {
		return err
	}
	args = append([]string{
		"-regtest", "-server", "-datadir=" + b.options.Dir, "-rpcbind=127.0.0.1", "-rpcallowip=127.0.0.1",
		"-rpcport=" + strconv.Itoa(b.options.Port), "-listen=0", "-connect=0", "-walletbroadcast=0", "-fallbackfee=0.00001",
		"-keypool=20", "-unsafesqlitesync", // a wallet of a test is made and written to within milliseconds
		"-printtoconsole=0",
		"-mempooltruc=enforce", // as Bitcoin Core always does
	}, append(b.options.Args, args...)...)
	cmd := b.program.command("bitcoind", args...)
	look := func(ctx context.Context) error { return b.Call(ctx, "", nil, "getblockchaininfo") }
	if err := b.start(ctx, cmd, syscall.SIGTERM, look); err != nil {
		return fmt.Errorf("start bitcoind: %w", err)
	}
	if b.options.BlockTime > 0 {
		go b.mineUntil(context.WithoutCancel(ctx), b.Done())
	}
	return nil
}

// mineUntil adds a block at each BlockTime, until the process has ended.
func (b *Bitcoin) mineUntil(ctx context.Context, done <-chan struct{}) {
	for {
		select {
		case <-done:
			return
		case <-time.After(b.options.BlockTime):
			// An error means that the node is ending.
			if b.empty.Load() {
				b.mining.Lock()
				_ = b.mineEmpty(ctx, 1)
				b.mining.Unlock()
			} else {
				_, _ = b.Mine(ctx, 1)
			}
		}
	}
}

// MineEmptyBlocks sets whether the blocks at each BlockTime are empty, as if all waiting transactions paid too little.
func (b *Bitcoin) MineEmptyBlocks(on bool) { b.empty.Store(on) }

func (b *Bitcoin) mineEmpty(ctx context.Context, blocks int) error {
	var to string
	if err := b.Call(ctx, Miner, &to, "getnewaddress"); err != nil {
		return err
	}
	for range blocks {
		if err := b.Call(ctx, "", nil, "generateblock", to, []string{}); err != nil {
			return err
		}
	}
	return nil
}

// OpenWallet makes a wallet with keys unless it is there. The node loads it again at each start.
func (b *Bitcoin) OpenWallet(ctx context.Context, name string) error {
	err := b.Call(ctx, name, nil, "getwalletinfo")
	if err != nil {
		err = b.Call(ctx, "", nil, "createwallet", name, false, false, "", false, true, true)
	}
	return err
}

// Call calls the node, in a wallet unless that is "". result is a pointer, or nil.
func (b *Bitcoin) Call(ctx context.Context, wallet string, result any, method string, args ...any) error {
	at := b.URL
	if wallet != "" {
		at += "/wallet/" + wallet
	}
	// The password is in a header: an error quotes the URL.
	authenticate := func(h http.Header) error {
		(&http.Request{Header: h}).SetBasicAuth(b.User, b.Password)
		return nil
	}
	// HTTP dials at a call only, and there is nothing to close.
	client, err := rpc.DialOptions(ctx, at, rpc.WithHTTPAuth(authenticate))
	if err == nil {
		err = client.CallContext(ctx, result, method, args...)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	return nil
}

// Mine adds blocks. It returns their hashes.
func (b *Bitcoin) Mine(ctx context.Context, blocks int) (hashes []string, err error) {
	b.mining.Lock()
	defer b.mining.Unlock()
	var to string
	if err := b.Call(ctx, Miner, &to, "getnewaddress"); err != nil {
		return nil, err
	}
	err = b.Call(ctx, "", &hashes, "generatetoaddress", blocks, to)
	return hashes, err
}

// coinbaseMaturity is the number of blocks before the reward of a block can be spent, and one more.
const coinbaseMaturity = 101

// Fund pays amounts, decimals, to a wallet: a coin for each, in one transaction that nobody has mined yet. It returns
// the transaction's id. It mines first what the miner needs.
func (b *Bitcoin) Fund(ctx context.Context, wallet string, amounts ...string) (txid string, err error) {
	var height int
	if err := b.Call(ctx, "", &height, "getblockcount"); err != nil {
		return "", err
	}
	if height < coinbaseMaturity {
		if _, err := b.Mine(ctx, coinbaseMaturity+20); err != nil {
			return "", err
		}
	}
	outputs := map[string]string{}
	for _, amount := range amounts {
		var address string
		if err := b.Call(ctx, wallet, &address, "getnewaddress", "", "bech32"); err != nil {
			return "", err
		}
		outputs[address] = amount
	}
	return b.Pay(ctx, Miner, outputs)
}

// Pay pays decimals by address from a wallet, whatever the depth of its coins is. It returns the transaction's id.
func (b *Bitcoin) Pay(ctx context.Context, wallet string, outputs map[string]string) (txid string, err error) {
	var signed struct {
		Hex string `json:"hex"`
	}
	options := map[string]any{"add_to_wallet": false, "fee_rate": 2}
	if err := b.Call(ctx, wallet, &signed, "send", outputs, nil, "unset", nil, options); err != nil {
		return "", err
	}
	err = b.Call(ctx, "", &txid, "sendrawtransaction", signed.Hex)
	return txid, err
}

// Reorganize replaces the last blocks by as many others and one more. What was in them waits in the pool again, and
// the new blocks are empty.
func (b *Bitcoin) Reorganize(ctx context.Context, blocks int) error {
	b.mining.Lock()
	defer b.mining.Unlock()
	var (
		height int
		hash   string
	)
	if err := b.Call(ctx, "", &height, "getblockcount"); err != nil {
		return err
	}
	if err := b.Call(ctx, "", &hash, "getblockhash", height-blocks+1); err != nil {
		return err
	}
	if err := b.Call(ctx, "", nil, "invalidateblock", hash); err != nil {
		return err
	}
	return b.mineEmpty(ctx, blocks+1)
}

// Stop ends the node. It keeps its files: a killed node may lose blocks that no other node has.
func (b *Bitcoin) Stop() error {
	if err := b.current().End(syscall.SIGTERM, 30*time.Second); err != nil {
		return fmt.Errorf("bitcoind %w", err)
	}
	return nil
}

// ForgetPool makes the next start begin without what waits in the pool.
func (b *Bitcoin) ForgetPool() error {
	return os.Remove(filepath.Join(b.options.Dir, "regtest", "mempool.dat"))
}

// Close ends the node at once, and removes its files unless they have a directory of the options. A second call does
// nothing.
func (b *Bitcoin) Close() {
	b.kill()
	if b.temporary {
		_ = os.RemoveAll(b.options.Dir) // below the system's temporary directory
	}
}

// A Child is a transaction that spends an output of another one, its parent, before a block has that.
type Child struct {
	Version   int32
	Size, Fee int64 // in virtual bytes: SmallChild, and multiples of 31 more; in satoshis
}

// SmallChild is the size of a child with one output.
const SmallChild = 110

// Sign returns the digits of a child that spends an output of the parent in a wallet, and pays nobody.
func (c Child) Sign(ctx context.Context, b *Bitcoin, wallet string, parent []byte, output int) (string, error) {
	const (
		each = 31  // the size of another output
		dust = 294 // the least amount of an output
	)
	var from wire.MsgTx
	if err := from.Deserialize(bytes.NewReader(parent)); err != nil {
		return "", err
	}
	hash, nobody := from.TxHash(), append([]byte{0, 20}, make([]byte, 20)...)
	tx := wire.NewMsgTx(c.Version)
	tx.AddTxIn(wire.NewTxIn(wire.NewOutPoint(&hash, uint32(output)), nil, nil)) //nolint:gosec // G115: some outputs
	more := (c.Size - SmallChild) / each
	tx.AddTxOut(wire.NewTxOut(from.TxOut[output].Value-c.Fee-more*dust, nobody))
	for range more {
		tx.AddTxOut(wire.NewTxOut(dust, nobody))
	}
	var raw bytes.Buffer
	if err := tx.Serialize(&raw); err != nil {
		return "", err
	}
	var signed struct {
		Hex string `json:"hex"`
	}
	err := b.Call(ctx, wallet, &signed, "signrawtransactionwithwallet", hex.EncodeToString(raw.Bytes()))
	return signed.Hex, err
}

// Spend gives the node a child that spends an output of the parent in a wallet. It returns the child's id.
func (b *Bitcoin) Spend(
	ctx context.Context, wallet string, parent []byte, output int, c Child,
) (txid string, err error) {
	digits, err := c.Sign(ctx, b, wallet, parent, output)
	if err == nil {
		err = b.Call(ctx, "", &txid, "sendrawtransaction", digits, 0)
	}
	return txid, err
}
