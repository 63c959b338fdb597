package ethereum

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"os"

	"github.com/ethereum/go-ethereum/accounts/keystore"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"

	"example.com/checkout/activities/jsonrpc"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/treasury"
)

// A Signer has keys of accounts. Its methods may be called from several goroutines.
type Signer interface {
	// Accounts returns the accounts whose keys it has.
	Accounts(ctx context.Context) ([]common.Address, error)
	// Sign returns the transaction, signed by account, as bytes for the network. The caller checks every field of it.
	Sign(ctx context.Context, account common.Address, tx *types.DynamicFeeTx) ([]byte, error)
}

// Sign implements treasury.Chain. It makes no request to a node.
func (c *Chain) Sign(ctx context.Context, plan treasury.TransferPlan) (_ treasury.TransferVersion, err error) {
	defer checkout.Wrap(&err, "ethereum: sign with %s", plan.Slot.Name())
	if c.signer == nil {
		return treasury.TransferVersion{}, errors.New("this process has no signer")
	}
	tx, err := c.transaction(plan)
	if err != nil {
		return treasury.TransferVersion{}, err
	}

	raw, err := c.signer.Sign(ctx, c.treasury, tx)
	if err != nil {
		return treasury.TransferVersion{}, fmt.Errorf("signer: %w", err)
	}
	hash, err := c.checkSigned(raw, tx)
	if err != nil {
		return treasury.TransferVersion{}, fmt.Errorf("signer: %w", err)
	}
	return treasury.TransferVersion{TransferPlan: plan, TxHash: hash.Hex(), Raw: raw}, nil
}

// nonceOf returns the nonce that a slot is.
func nonceOf(s treasury.Slot) (uint64, error) {
	nonce, ok := s.Number()
	if !ok {
		return 0, fmt.Errorf("%s is no nonce", s.Name())
	}
	return nonce, nil
}

// transaction returns the unsigned transaction of a plan.
func (c *Chain) transaction(plan treasury.TransferPlan) (*types.DynamicFeeTx, error) {
	nonce, err := nonceOf(plan.Slot)
	if err != nil {
		return nil, err
	}
	p, err := c.payloadOf(plan)
	if err != nil {
		return nil, err
	}
	t, err := decodeTerms(plan.Terms)
	if err != nil {
		return nil, err
	}
	if t.CapWei.Cmp(c.maxFee) > 0 {
		return nil, fmt.Errorf("%w: the plan's cap is %s, the limit is %s",
			treasury.ErrFeeTooHigh, inGwei(t.CapWei), inGwei(c.maxFee))
	}
	return &types.DynamicFeeTx{
		ChainID: new(big.Int).SetUint64(c.chainID), Nonce: nonce, GasTipCap: t.TipWei, GasFeeCap: t.CapWei,
		Gas: t.Gas, To: &p.to, Value: p.value, Data: p.data,
	}, nil
}

// checkSigned compares the signed transaction with the unsigned one, and returns its hash. Its errors name the fields
// that differ, without their values.
func (c *Chain) checkSigned(raw []byte, want *types.DynamicFeeTx) (common.Hash, error) {
	got := new(types.Transaction)
	if err := got.UnmarshalBinary(raw); err != nil {
		return common.Hash{}, errors.New("it returned something else than a transaction")
	}
	var different []error
	for _, field := range []struct {
		name string
		same bool
	}{
		{"type", got.Type() == types.DynamicFeeTxType},
		{"chain id", got.ChainId().Cmp(want.ChainID) == 0},
		{"nonce", got.Nonce() == want.Nonce},
		{"to", got.To() != nil && *got.To() == *want.To},
		{"value", got.Value().Cmp(want.Value) == 0},
		{"data", bytes.Equal(got.Data(), want.Data)},
		{"gas", got.Gas() == want.Gas},
		{"tip", got.GasTipCap().Cmp(want.GasTipCap) == 0},
		{"cap", got.GasFeeCap().Cmp(want.GasFeeCap) == 0},
		{"access list", len(got.AccessList()) == 0},
	} {
		if !field.same {
			different = append(different, fmt.Errorf("it changed the field %s", field.name))
		}
	}
	if len(different) > 0 {
		return common.Hash{}, errors.Join(different...)
	}

	rules := types.LatestSignerForChainID(want.ChainID)
	if rules.Hash(got) != rules.Hash(types.NewTx(want)) {
		return common.Hash{}, errors.New("it signed another transaction")
	}
	if sender, err := types.Sender(rules, got); err != nil || sender != c.treasury {
		return common.Hash{}, errors.New("its signature is not the treasury's")
	}
	return got.Hash(), nil
}

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

// RemoteSigner is a Signer behind eth_accounts and eth_signTransaction of a server, such as Web3Signer.
type RemoteSigner struct{ server *jsonrpc.Node }

var _ Signer = (*RemoteSigner)(nil)

// NewRemoteSigner returns a signer for the server at an http or https URL. It makes no request yet. No error holds the
// URL.
func NewRemoteSigner(url string) (*RemoteSigner, error) {
	server, err := jsonrpc.Dial("signer", url, jsonrpc.Options{})
	if err != nil {
		return nil, err
	}
	return &RemoteSigner{server}, nil
}

// Accounts implements Signer.
func (s *RemoteSigner) Accounts(ctx context.Context) ([]common.Address, error) {
	var accounts []common.Address
	err := s.server.Call(ctx, &accounts, "eth_accounts")
	return accounts, err
}

// Sign implements Signer.
func (s *RemoteSigner) Sign(ctx context.Context, account common.Address, tx *types.DynamicFeeTx) ([]byte, error) {
	var answer json.RawMessage
	if err := s.server.Call(ctx, &answer, "eth_signTransaction", map[string]any{
		"type": hexutil.Uint64(types.DynamicFeeTxType), "chainId": quantity(tx.ChainID), "from": account, "to": tx.To,
		"nonce": hexutil.Uint64(tx.Nonce), "gas": hexutil.Uint64(tx.Gas), "maxFeePerGas": quantity(tx.GasFeeCap),
		"maxPriorityFeePerGas": quantity(tx.GasTipCap), "value": quantity(tx.Value), "data": hexutil.Bytes(tx.Data),
	}); err != nil {
		return nil, err
	}
	return parseSignedTransaction(answer)
}

func quantity(n *big.Int) *hexutil.Big { return (*hexutil.Big)(n) }

// parseSignedTransaction reads the answer of eth_signTransaction: the bytes, or an object with the bytes as raw.
func parseSignedTransaction(answer json.RawMessage) ([]byte, error) {
	var raw hexutil.Bytes
	if json.Unmarshal(answer, &raw) == nil && len(raw) > 0 {
		return raw, nil
	}
	var object struct {
		Raw hexutil.Bytes `json:"raw"`
	}
	if json.Unmarshal(answer, &object) == nil && len(object.Raw) > 0 {
		return object.Raw, nil
	}
	return nil, errors.New("it returned no signed transaction")
}
