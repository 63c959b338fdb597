package devstack

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"example.com/checkout/deploy/standin/chains"
	"example.com/checkout/workflows/money"
)

// TreasuryWallet is the wallet of the Bitcoin node that pays.
const TreasuryWallet = "treasury"

const merchantWallet = "merchant"

// The chain, which is kept between starts, and the password of its node.
const (
	bitcoinDir      = "bitcoin"
	bitcoinPassword = "bitcoin-password"
)

// startBitcoin starts the node and funds the treasury once. Without Debian's package there is no payout in BTC.
func (s *Stack) startBitcoin(ctx context.Context, d *LiveDouble) (err error) {
	if s.options.Bitcoin == 0 {
		return nil
	}
	d.Bitcoin, err = chains.StartBitcoin(ctx, chains.BitcoinOptions{
		Dir: filepath.Join(s.options.Dir, bitcoinDir), Port: s.options.Ports.Bitcoin, BlockTime: s.options.Bitcoin,
	})
	if errors.Is(err, chains.ErrNoKnots) {
		reason, _, _ := strings.Cut(err.Error(), "\n")
		_, _ = fmt.Fprintf(s.options.Out, "No payouts in BTC: %s\n", reason) // a note of progress
		return nil
	}
	if err != nil {
		return err
	}
	d.bitcoinPassword = filepath.Join(s.options.Dir, bitcoinPassword)
	if err := os.WriteFile(d.bitcoinPassword, []byte(d.Bitcoin.Password), 0o600); err != nil {
		return err
	}
	if err := d.Bitcoin.OpenWallet(ctx, merchantWallet); err != nil {
		return err
	}
	if err := d.Bitcoin.OpenWallet(ctx, TreasuryWallet); err != nil {
		return err
	}
	has, err := d.bitcoins(ctx, TreasuryWallet)
	if err != nil || has.Sign() > 0 {
		return err // funded at an earlier start
	}
	return d.Fund(ctx, money.BTC, cmp.Or(d.float, plenty))
}

// fundBitcoin gives the treasury more, and makes it final. It gives several coins: each transfer uses one up, and its
// change is final some blocks later.
func (d *LiveDouble) fundBitcoin(ctx context.Context, dollars int64) error {
	const coins = 20
	coin := amountOf(money.BTC, dollars/coins).String()
	if _, err := d.Bitcoin.Fund(ctx, TreasuryWallet, slices.Repeat([]string{coin}, coins)...); err != nil {
		return err
	}
	_, err := d.Bitcoin.Mine(ctx, BitcoinConfirmations)
	return err
}

// BitcoinConfirmations make a block final.
const BitcoinConfirmations = 6

// bitcoins returns what a wallet has in blocks, in satoshis.
func (d *LiveDouble) bitcoins(ctx context.Context, wallet string) (*big.Int, error) {
	var got json.Number
	if err := d.Bitcoin.Call(ctx, wallet, &got, "getbalance", "*", 1); err != nil {
		return nil, err
	}
	return money.ParseUnits(got.String(), money.BTC.Places())
}

// bitcoinsOf returns what an address has in blocks, in satoshis.
func (d *LiveDouble) bitcoinsOf(ctx context.Context, address string) (*big.Int, error) {
	var got struct {
		Total json.Number `json:"total_amount"`
	}
	if err := d.Bitcoin.Call(ctx, "", &got, "scantxoutset", "start", []string{"addr(" + address + ")"}); err != nil {
		return nil, err
	}
	return money.ParseUnits(got.Total.String(), money.BTC.Places())
}

// bitcoinEnvironment returns the settings of Bitcoin, none without a node.
func (d *LiveDouble) bitcoinEnvironment() []string {
	if d.Bitcoin == nil {
		return nil
	}
	return []string{
		"CHECKOUT_BITCOIN_RPC_URL=" + strings.Replace(d.Bitcoin.URL, "http://", "http://"+d.Bitcoin.User+"@", 1),
		"CHECKOUT_BITCOIN_RPC_PASSWORD_FILE=" + d.bitcoinPassword,
		"CHECKOUT_BITCOIN_NETWORK=regtest", "CHECKOUT_BITCOIN_BATCH_INTERVAL=5s",
	}
}
