package storage

import (
	"encoding/hex"
	"errors"
	"slices"
	"strings"

	"github.com/btcsuite/btcd/btcutil"
	"github.com/btcsuite/btcd/chaincfg"
	"golang.org/x/crypto/sha3"

	"example.com/checkout/workflows/checkout"
)

// Faults of a payout address. Each continues a sentence that begins with "The address".
var (
	errEthereumShape    = errors.New("must be 0x and 40 hexadecimal digits")
	errEthereumChecksum = errors.New("has a checksum (its upper-case letters) that does not match: a character is wrong")
	errEthereumZero     = errors.New("is the zero address, from which nobody can take anything")
	errBitcoin          = errors.New("is not a Bitcoin address: a character is wrong or missing")
	errBitcoinNetwork   = errors.New("is of another Bitcoin network")
	errSandbox          = errors.New("exists in test mode only")
	errNetwork          = errors.New("is of a network that is not supported")
	errReserved         = errors.New("is the treasury's or a token's: money that is sent there reaches no merchant")
)

// sandboxAddress begins the addresses of the sandbox's chain. Three of them make a payout fail.
// Source: api/README.md, "Test payout addresses".
const sandboxAddress = "sandbox:"

// CheckPayoutAddress returns the fault of an address on a currency's network, nil for none. The text
// of the error continues a sentence that begins with "The address". Test mode also accepts addresses
// of the sandbox and of test networks. Live mode refuses the reserved addresses: the treasury's own
// and those of the tokens' contracts, as far as the caller knows them.
func CheckPayoutAddress(mode checkout.Mode, network, address string, reserved ...string) error {
	isAddress := func(other string) bool { return strings.EqualFold(address, other) }
	if mode.Live() && slices.ContainsFunc(reserved, isAddress) {
		return errReserved
	}
	switch {
	case strings.HasPrefix(address, sandboxAddress):
		if mode.Live() {
			return errSandbox
		}
		return nil
	case network == "bitcoin":
		return checkBitcoin(mode, address)
	case network == "ethereum":
		return checkEthereum(address)
	}
	return errNetwork
}

func checkBitcoin(mode checkout.Mode, address string) error {
	switch {
	case bitcoinAddress(address, &chaincfg.MainNetParams):
		return nil
	case !bitcoinAddress(address, &chaincfg.TestNet3Params) && !bitcoinAddress(address, &chaincfg.RegressionNetParams):
		return errBitcoin
	case mode.Live():
		return errBitcoinNetwork
	}
	return nil
}

// bitcoinAddress reports whether text is an address of the network. The library also reads public
// keys; they are not addresses.
func bitcoinAddress(text string, network *chaincfg.Params) bool {
	got, err := btcutil.DecodeAddress(text, network)
	if err != nil {
		return false
	}
	_, isKey := got.(*btcutil.AddressPubKey)
	return !isKey && got.IsForNet(network)
}

// checkEthereum checks the shape of an address. It checks the checksum when the address mixes upper
// and lower case. Source: EIP-55.
func checkEthereum(address string) error {
	digits, ok := strings.CutPrefix(address, "0x")
	raw, err := hex.DecodeString(digits)
	switch {
	case !ok || err != nil || len(raw) != 20:
		return errEthereumShape
	case strings.Trim(digits, "0") == "":
		return errEthereumZero
	case digits == strings.ToLower(digits) || digits == strings.ToUpper(digits):
		return nil // one case only: there is no checksum
	case digits != ethereumChecksum(strings.ToLower(digits)):
		return errEthereumChecksum
	}
	return nil
}

// ethereumChecksum writes a letter in upper case when the hash's digit at its place is 8 or more.
func ethereumChecksum(lower string) string {
	hash := sha3.NewLegacyKeccak256()
	hash.Write([]byte(lower))
	sum := hex.EncodeToString(hash.Sum(nil))
	mixed := []byte(lower)
	for i, c := range mixed {
		if c >= 'a' && sum[i] >= '8' {
			mixed[i] = c - 'a' + 'A'
		}
	}
	return string(mixed)
}
