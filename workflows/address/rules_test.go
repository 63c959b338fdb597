package address

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
)

// The addresses with a checksum are those of EIP-55, BIP-173 and BIP-350.
func TestRules_KnowsTheChains(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		network, address string
		test, live       error
	}{
		{"ethereum", "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", nil, nil},
		{"ethereum", "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359", nil, nil},
		{"ethereum", "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed", nil, nil},
		{"ethereum", "0x5AAEB6053F3E94C9B9A09F33669435E7EF1BEAED", nil, nil},
		{"ethereum", "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAeD", errEthereumChecksum, errEthereumChecksum},
		{"ethereum", "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAeb", errEthereumChecksum, errEthereumChecksum},
		{"ethereum", "5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", errEthereumShape, errEthereumShape},
		{"ethereum", "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAe", errEthereumShape, errEthereumShape},
		{"ethereum", "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed0", errEthereumShape, errEthereumShape},
		{"ethereum", "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAeg", errEthereumShape, errEthereumShape},
		{"ethereum", "0x0000000000000000000000000000000000000000", errEthereumLow, errEthereumLow},
		{"ethereum", "0x0000000000000000000000000000000000000001", errEthereumLow, errEthereumLow},
		{"ethereum", "0x000000000000000000000000000000000000FFFF", errEthereumLow, errEthereumLow},
		{"ethereum", "0x0000000000000000000000000000000000010000", nil, nil},
		{"ethereum", "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4", errEthereumShape, errEthereumShape},
		{"ethereum", "sandbox:shop", nil, errSandbox},
		{"ethereum", "sandbox:" + strings.Repeat("a", 192), nil, errSandbox},
		{"ethereum", "sandbox:" + strings.Repeat("a", 193), errText, errText},
		{"ethereum", "sandbox:a shop", errText, errText},
		{"ethereum", "sandbox:Geschäft", errText, errText},
		{"bitcoin", "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4", nil, nil},
		{"bitcoin", "BC1QW508D6QEJXTDG4Y5R3ZARVARY0C5XW7KV8F3T4", nil, nil},
		{"bitcoin", "bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqzk5jj0", nil, nil},
		{"bitcoin", "1BvBMSEYstWetqTFn5Au4m4GFg7xJaNVN2", nil, nil},
		{"bitcoin", "3J98t1WpEZ73CNmQviecrnyiWrnqRhWNLy", nil, nil},
		{"bitcoin", "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t5", errBitcoin, errBitcoin},
		{"bitcoin", "bc1Qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4", errBitcoin, errBitcoin},
		{"bitcoin", "1BvBMSEYstWetqTFn5Au4m4GFg7xJaNVN3", errBitcoin, errBitcoin},
		{"bitcoin", "0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798", errBitcoin, errBitcoin},
		{"bitcoin", "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", errBitcoin, errBitcoin},
		{"bitcoin", "tb1qw508d6qejxtdg4y5r3zarvary0c5xw7kxpjzsx", nil, errBitcoinNetwork},
		{"bitcoin", "mipcBbFg9gMiCh81Kj8tqqdgoZub1ZJRfn", nil, errBitcoinNetwork},
		{"bitcoin", "bc1", errBitcoin, errBitcoin},
		{"bitcoin", "<script>", errBitcoin, errBitcoin},
	} {
		require.Equal(t, c.test, Rules{}.Check(checkout.ModeTest, c.network, c.address), "%s in test mode", c.address)
		require.Equal(t, c.live, Rules{}.Check(checkout.ModeLive, c.network, c.address), "%s in live mode", c.address)
	}
}

func TestPayoutAddress_OfTheSandboxIsRefusedOnTestNetworks(t *testing.T) {
	t.Parallel()
	require.ErrorIs(t, Rules{TestNetworks: true}.Check(checkout.ModeTest, "ethereum", "sandbox:shop"), errTestChain)
	require.ErrorIs(t, Rules{TestNetworks: true}.Check(checkout.ModeLive, "ethereum", "sandbox:shop"), errSandbox)
	require.NoError(t, Rules{TestNetworks: true}.Check(checkout.ModeTest, "ethereum", "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"))
}

func TestPayoutAddress_EveryCurrencyHasACheckOfItsNetwork(t *testing.T) {
	t.Parallel()
	for _, c := range money.PayoutCurrencies {
		err := Rules{}.Check(checkout.ModeLive, c.Network(), "x")
		require.Error(t, err, c)
		require.NotErrorIs(t, err, errNetwork, c)
	}
	require.ErrorIs(t, Rules{}.Check(checkout.ModeLive, "solana", "x"), errNetwork)
}

func TestRules_RefusesTheTreasuryAndItsContracts(t *testing.T) {
	t.Parallel()
	const treasury, usdc, other = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", "0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48",
		"0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359"
	rules := Rules{Reserved: map[checkout.Mode][]string{
		checkout.ModeLive: {treasury, usdc}, checkout.ModeTest: {other},
	}}
	for _, address := range []string{treasury, strings.ToLower(treasury), usdc} {
		require.Equal(t, errReserved, rules.Check(checkout.ModeLive, "ethereum", address), address)
		require.NoError(t, rules.Check(checkout.ModeTest, "ethereum", address), address)
		require.NoError(t, Rules{}.Check(checkout.ModeLive, "ethereum", address), "nothing is known to be reserved")
	}
	require.NoError(t, rules.Check(checkout.ModeLive, "ethereum", other))
	require.NoError(t, rules.Check(checkout.ModeTest, "ethereum", other), "the sandbox has no treasury")
	rules.TestNetworks = true
	require.Equal(t, errReserved, rules.Check(checkout.ModeTest, "ethereum", other))
}
