package ethereum

import (
	"github.com/ethereum/go-ethereum/common"

	"example.com/checkout/storage"
)

// parseAddress is storage.EthereumAddress: what the doors refuse, nothing is sent to.
func parseAddress(text string) (common.Address, error) {
	address, err := storage.EthereumAddress(text)
	return common.Address(address), err
}
