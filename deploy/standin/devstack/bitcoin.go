package devstack

import (
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
	"example.com/checkout/workflows/checkout"
)

// Wallets of the Bitcoin node, besides its miner's.
const (
	treasuryWallet = "treasury"
	merchantWallet = "merchant"
)

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
		Dir: filepath.Join(s.options.Dir, bitcoinDir), BlockTime: s.options.Bitcoin,
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
	if err := d.Bitcoin.OpenWallet(ctx, treasuryWallet); err != nil {
		return err
	}
	has, err := d.bitcoins(ctx, treasuryWallet)
	if err != nil || has.Sign() > 0 {
		return err // funded at an earlier start
	}
	// A coin is used up by each transfer, and its change is final a minute later.
	if _, err := d.Bitcoin.Fund(ctx, treasuryWallet, slices.Repeat([]string{"0.2"}, 50)...); err != nil {
		return err
	}
	_, err = d.Bitcoin.Mine(ctx, confirmations)
	return err
}

// confirmations make a block final.
const confirmations = 6

// bitcoins returns what a wallet has in blocks, in satoshis.
func (d *LiveDouble) bitcoins(ctx context.Context, wallet string) (*big.Int, error) {
	var got json.Number
	if err := d.Bitcoin.Call(ctx, wallet, &got, "getbalance", "*", 1); err != nil {
		return nil, err
	}
	return checkout.ParseUnits(got.String(), checkout.BTC.Places())
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
