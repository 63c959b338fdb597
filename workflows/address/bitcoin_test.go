package address

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/btcsuite/btcd/chaincfg"
	"github.com/btcsuite/btcd/txscript"
	"github.com/stretchr/testify/require"
)

// TestBitcoin_ReadsTheVectors: the addresses and scripts of BIP-173 and BIP-350, those that no payout can go to as
// well.
func TestBitcoin_ReadsTheVectors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		address, script string
		err             error
	}{
		{"BC1QW508D6QEJXTDG4Y5R3ZARVARY0C5XW7KV8F3T4", "0014751e76e8199196d454941c45d1b3a323f1433bd6", nil},
		{"bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqzk5jj0", "512079be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798", nil},
		{"bc1pw508d6qejxtdg4y5r3zarvary0c5xw7kw508d6qejxtdg4y5r3zarvary0c5xw7kt5nd6y", "", errBitcoinKind}, // version 1, 40 bytes
		{"BC1SW50QGDZ25J", "", errBitcoinKind},                       // version 16
		{"bc1zw508d6qejxtdg4y5r3zarvaryvaxxpcs", "", errBitcoinKind}, // version 2
		{"bc1pfeessrawgf", "", errBitcoinKind},                       // an anchor
		{"tb1qrp33g0q5c5txsp9arysrx4k6zdkfs4nce4xj0gdcccefvpysxf3q0sl5k7", "", errBitcoinNetwork},
		{"tb1qqqqqp399et2xygdj5xreqhjjvcmzhxw4aywxecjdzew6hylgvsesrxh6hy", "", errBitcoinNetwork},
		{"tb1pqqqqp399et2xygdj5xreqhjjvcmzhxw4aywxecjdzew6hylgvsesf3hn0c", "", errBitcoinNetwork},
		// Invalid ones of BIP-350.
		{"tc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vq5zuyut", "", errBitcoin},     // human-readable part
		{"bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqh2y7hd", "", errBitcoin},     // bech32, not bech32m
		{"tb1z0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqglt7rf", "", errBitcoinKind}, // version 2, whatever its checksum
		{"BC1S0XLXVLHEMJA6C4DQV22UAPCTQUPFHLXM9H8Z3K2E72Q4K9HCZ7VQ54WELL", "", errBitcoinKind}, // version 16, whatever its checksum
		{"bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kemeawh", "", errBitcoin},                         // bech32m, not bech32
		{"tb1q0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vq24jc47", "", errBitcoin},     // bech32m, not bech32
		{"bc1p38j9r5y49hruaue7wxjce0updqjuyyx0kh56v8s25huc6995vvpql3jow4", "", errBitcoin},     // a character
		{"BC130XLXVLHEMJA6C4DQV22UAPCTQUPFHLXM9H8Z3K2E72Q4K9HCZ7VQ7ZWS8R", "", errBitcoin},     // version 17
		{"bc1pw5dgrnzv", "", errBitcoin}, // 1 byte
		{"bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7v8n0nx0muaewav253zgeav", "", errBitcoin}, // 41 bytes
		{"BC1QR508D6QEJXTDG4Y5R3ZARVARYV98GJ9P", "", errBitcoin},                                         // version 0, 16 bytes
		{"tb1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vq47Zagq", "", errBitcoin},               // mixed case
		{"bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7v07qwwzcrf", "", errBitcoin},             // padding
		{"tb1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vpggkg4j", "", errBitcoin},               // padding
		{"bc1gmk9yu", "", errBitcoin}, // no data
		// Base58, and none of another coin that looks alike.
		{"1BvBMSEYstWetqTFn5Au4m4GFg7xJaNVN2", "76a91477bff20c60e522dfaa3350c39b030a5d004e839a88ac", nil},
		{"3J98t1WpEZ73CNmQviecrnyiWrnqRhWNLy", "a914b472a266d0bd89c13706a4132ccfb16f7c3b9fcb87", nil},
		{"mipcBbFg9gMiCh81Kj8tqqdgoZub1ZJRfn", "", errBitcoinNetwork},
		{"LZLYvKLa7pXJ3VYgDA2GpKKtkcPUyq8v6Q", "", errBitcoin},
		{"1bvbmseystwetqtfn5au4m4gfg7xjanvn2", "", errBitcoin},
	} {
		got, err := Bitcoin(c.address, &chaincfg.MainNetParams)
		require.Equal(t, c.err, err, c.address)
		if err == nil {
			script, err := txscript.PayToAddrScript(got)
			require.NoError(t, err)
			require.Equal(t, c.script, hex.EncodeToString(script), c.address)
		}
	}
}

// TestBitcoin_OfTheRightNetworkOnly: testnet4 and signet share their addresses; regtest has its own, but in base58.
func TestBitcoin_OfTheRightNetworkOnly(t *testing.T) {
	t.Parallel()
	const main, test, regtest, base58 = "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4",
		"tb1qw508d6qejxtdg4y5r3zarvary0c5xw7kxpjzsx", "bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080",
		"mipcBbFg9gMiCh81Kj8tqqdgoZub1ZJRfn"
	for network, wanted := range map[*chaincfg.Params][]string{
		&chaincfg.MainNetParams: {main}, &chaincfg.TestNet3Params: {test, base58},
		&chaincfg.RegressionNetParams: {regtest, base58},
	} {
		for _, address := range []string{main, test, regtest, base58} {
			want := errBitcoinNetwork
			if strings.Contains(strings.Join(wanted, " "), address) {
				want = nil
			}
			_, err := Bitcoin(address, network)
			require.Equal(t, want, err, "%s on %s", address, network.Name)
		}
	}
}
