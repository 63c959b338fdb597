package ethereum

import (
	"context"
	"crypto/ecdsa"
	"errors"
	"fmt"
	"os"

	"github.com/ethereum/go-ethereum/accounts/keystore"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
)

// Keystore is a Signer with one key in memory. The same input gives the same bytes (RFC 6979).
type Keystore struct {
	account common.Address
	key     *ecdsa.PrivateKey
}

var _ Signer = (*Keystore)(nil)

// OpenKeystore decrypts a key file of the format Web3 Secret Storage, version 3. It takes about a second.
func OpenKeystore(file, password string) (*Keystore, error) {
	content, err := os.ReadFile(file) //nolint:gosec // G304: a setting
	if err != nil {
		return nil, fmt.Errorf("ethereum: keystore: %w", err)
	}
	key, err := keystore.DecryptKey(content, password)
	if errors.Is(err, keystore.ErrDecrypt) {
		return nil, fmt.Errorf("ethereum: keystore %s: the password is wrong", file)
	}
	if err != nil { // the library's text could quote the file
		return nil, fmt.Errorf("ethereum: keystore %s is not a key file of version 3", file)
	}
	return &Keystore{key.Address, key.PrivateKey}, nil
}

// Accounts implements Signer.
func (k *Keystore) Accounts(context.Context) ([]common.Address, error) {
	return []common.Address{k.account}, nil
}

// Sign implements Signer.
func (k *Keystore) Sign(_ context.Context, account common.Address, tx *types.DynamicFeeTx) ([]byte, error) {
	if account != k.account {
		return nil, fmt.Errorf("it has no key for %s", account)
	}
	signed, err := types.SignNewTx(k.key, types.LatestSignerForChainID(tx.ChainID), tx)
	if err != nil {
		return nil, err
	}
	return signed.MarshalBinary()
}

// String keeps the key out of every text.
func (k *Keystore) String() string { return "keystore of " + k.account.Hex() }

// GoString keeps the key out of every text.
func (k *Keystore) GoString() string { return k.String() }
