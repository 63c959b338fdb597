package ethereum

import (
	"encoding/hex"
	"errors"
	"math/big"
	"strings"

	"github.com/ethereum/go-ethereum/common"
)

// Faults of an address. Each continues a sentence that begins with the address's name.
var (
	errShape    = errors.New("must be 0x and 40 hexadecimal digits")
	errChecksum = errors.New("has a checksum (its upper-case letters) that does not match")
	errReserved = errors.New("is not an account's")
)

// reserved is the first address that can be an account's. Those below are the zero address and the
// machine's own contracts, from which nobody can take anything.
var reserved = big.NewInt(1 << 16)

// parseAddress reads an address. It checks the checksum when the address mixes upper and lower case.
// Source: EIP-55.
func parseAddress(text string) (common.Address, error) {
	digits, ok := strings.CutPrefix(text, "0x")
	raw, err := hex.DecodeString(digits)
	if !ok || err != nil || len(raw) != common.AddressLength {
		return common.Address{}, errShape
	}
	address := common.BytesToAddress(raw)
	mixed := digits != strings.ToLower(digits) && digits != strings.ToUpper(digits)
	switch {
	case mixed && address.Hex() != text:
		return common.Address{}, errChecksum
	case address.Big().Cmp(reserved) < 0:
		return common.Address{}, errReserved
	}
	return address, nil
}
