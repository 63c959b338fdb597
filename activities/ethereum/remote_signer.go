package ethereum

import (
	"context"
	"encoding/json"
	"errors"
	"math/big"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"

	"example.com/checkout/activities/jsonrpc"
)

// RemoteSigner is a Signer that asks a server by eth_accounts and eth_signTransaction, such as
// Web3Signer.
type RemoteSigner struct{ server *jsonrpc.Node }

var _ Signer = (*RemoteSigner)(nil)

// NewRemoteSigner returns a signer that asks the server at an http or https URL. It asks nothing yet.
// No error holds the URL.
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
