// Package address has the rules for the payout addresses of each network: their shapes, and the refused ones.
package address

import (
	"errors"
	"math/big"
	"slices"
	"strings"

	"github.com/btcsuite/btcd/btcutil"
	"github.com/btcsuite/btcd/chaincfg"
	"github.com/ethereum/go-ethereum/common"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
)

// Faults of a payout address. Each continues a sentence that begins with "The address".
var (
	errEthereumShape    = errors.New("must be 0x and 40 hexadecimal digits")
	errEthereumChecksum = errors.New("has a checksum (its upper-case letters) that does not match: a character is wrong")
	errEthereumLow      = errors.New("is below 0x10000, where the network's own contracts are: money sent there is lost")
	errBitcoin          = errors.New("is not a Bitcoin address: a character is wrong or missing")
	errBitcoinKind      = errors.New("is of a kind that is not supported: P2PKH, P2SH, P2WPKH, P2WSH and P2TR are")
	errBitcoinNetwork   = errors.New("is of another Bitcoin network")
	errSandbox          = errors.New("exists in test mode only")
	errTestChain        = errors.New("is one of the sandbox, and payouts are sent on a test network here")
	errText             = errors.New("must have at most 200 printable characters and no spaces")
	errNetwork          = errors.New("is of a network that is not supported")
	errRefused          = errors.New("cannot be used for payouts")
	errReserved         = errors.New("is the treasury's or a contract's: money that is sent there reaches no merchant")
)

// sandboxAddress begins the addresses of the sandbox's chain. Three of them make a payout fail.
// Source: api/README.md, "Test payout addresses".
const sandboxAddress = "sandbox:"

// maxLength is in bytes. Real addresses have less than half as many. A long text takes long to decode.
const maxLength = 200

func outside(r rune) bool { return r <= ' ' || r > '~' }

// Rules refuse payout addresses.
type Rules struct {
	// TestNetworks: the payouts of test mode are sent on a test network, so an address of the sandbox is refused.
	TestNetworks bool
	// Reserved are by mode the treasury's own address and those of the contracts that it uses. No payout on
	// a real chain goes there.
	Reserved map[checkout.Mode][]string
	// Sanctioned are addresses to which nothing is paid, by mode. The error does not say so.
	Sanctioned map[checkout.Mode]List
}

// Check returns the fault of an address on a currency's network, nil for none. The text of the error
// continues a sentence that begins with "The address". Test mode also accepts addresses of test
// networks, and of the sandbox unless it pays on a real chain.
func (r Rules) Check(mode checkout.Mode, network, address string) error {
	isAddress := func(other string) bool { return strings.EqualFold(address, other) }
	if (mode.Live() || r.TestNetworks) && slices.ContainsFunc(r.Reserved[mode], isAddress) {
		return errReserved
	}
	if r.Sanctioned[mode].Has(address) {
		return errRefused
	}
	switch {
	case len(address) > maxLength || strings.ContainsFunc(address, outside):
		return errText
	case strings.HasPrefix(address, sandboxAddress) && mode.Live():
		return errSandbox
	case strings.HasPrefix(address, sandboxAddress) && r.TestNetworks:
		return errTestChain
	case strings.HasPrefix(address, sandboxAddress):
		return nil
	}
	if check := checks[network]; check != nil {
		return check(mode, address)
	}
	return errNetwork
}

// checks has the rule of each network's addresses.
var checks = map[string]func(checkout.Mode, string) error{
	money.Bitcoin:  checkBitcoin,
	money.Ethereum: checkEthereum,
}

func checkEthereum(_ checkout.Mode, address string) error {
	_, err := Ethereum(address)
	return err
}

func checkBitcoin(mode checkout.Mode, address string) error {
	_, err := Bitcoin(address, &chaincfg.MainNetParams)
	if err != errBitcoinNetwork || mode.Live() { //nolint:errorlint // Bitcoin returns it as it is
		return err
	}
	return nil // of a test network
}

// bitcoinNetworks are the networks whose addresses are known. Those of testnet4 and of signet are as testnet3's.
var bitcoinNetworks = []*chaincfg.Params{
	&chaincfg.MainNetParams, &chaincfg.TestNet3Params, &chaincfg.RegressionNetParams,
}

// Bitcoin reads an address of a network: P2PKH, P2SH, P2WPKH, P2WSH or P2TR. The text of the error continues a
// sentence that begins with "The address". Source: BIP-173, BIP-350.
func Bitcoin(text string, network *chaincfg.Params) (btcutil.Address, error) {
	for _, of := range bitcoinNetworks {
		got, err := btcutil.DecodeAddress(text, of)
		var (
			version btcutil.UnsupportedWitnessVerError
			length  btcutil.UnsupportedWitnessProgLenError
		)
		switch {
		case errors.As(err, &version) || errors.As(err, &length):
			return nil, errBitcoinKind
		case err != nil || !got.IsForNet(of):
			continue
		}
		switch got.(type) {
		case *btcutil.AddressPubKeyHash, *btcutil.AddressScriptHash, *btcutil.AddressWitnessPubKeyHash,
			*btcutil.AddressWitnessScriptHash, *btcutil.AddressTaproot:
			// The library takes some programs of version 1 for others of version 0.
			if shown := got.EncodeAddress(); shown != text && shown != strings.ToLower(text) {
				return nil, errBitcoinKind
			}
		case *btcutil.AddressPubKey:
			return nil, errBitcoin // a public key is no address
		default:
			return nil, errBitcoinKind // everybody can spend what is sent to an anchor
		}
		if of.Net != network.Net && !got.IsForNet(network) {
			return nil, errBitcoinNetwork
		}
		return got, nil
	}
	return nil, errBitcoin
}

// lowestAccount is the first address of Ethereum that can be an account's.
const lowestAccount = 1 << 16

// Ethereum reads an address of an account or of a contract. It checks the checksum when the address mixes
// upper and lower case. The text of the error continues a sentence that begins with "The address". Source: EIP-55.
func Ethereum(text string) (common.Address, error) {
	digits, ok := strings.CutPrefix(text, "0x")
	address := common.HexToAddress(digits)
	switch {
	case !ok || !common.IsHexAddress(digits) || len(digits) != 2*common.AddressLength:
		return address, errEthereumShape
	case address.Big().Cmp(big.NewInt(lowestAccount)) < 0:
		return address, errEthereumLow
	case digits == strings.ToLower(digits) || digits == strings.ToUpper(digits):
		return address, nil // one case only: there is no checksum
	case text != address.Hex():
		return address, errEthereumChecksum
	}
	return address, nil
}
