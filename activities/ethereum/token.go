package ethereum

import (
	"fmt"
	"math/big"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"

	"example.com/checkout/workflows/money"
)

// wordSize is the size of a value in a contract's input and output, in bytes.
const wordSize = 32

// selector is the beginning of a call of a contract's method.
func selector(signature string) []byte { return crypto.Keccak256([]byte(signature))[:4] }

var (
	decimalsCall = selector("decimals()")
	// transferTopic is the first topic of a token's log of a transfer. Source: ERC-20.
	transferTopic = crypto.Keccak256Hash([]byte("Transfer(address,address,uint256)"))
)

// encodeCall returns the input of a method whose arguments are addresses and numbers.
func encodeCall(signature string, args ...any) []byte {
	data := selector(signature)
	for _, arg := range args {
		switch value := arg.(type) {
		case common.Address:
			data = append(data, common.LeftPadBytes(value.Bytes(), wordSize)...)
		case *big.Int:
			data = append(data, common.LeftPadBytes(value.Bytes(), wordSize)...)
		}
	}
	return data
}

// A message is a call as a node takes it.
type message struct {
	From  *common.Address `json:"from,omitempty"`
	To    *common.Address `json:"to,omitempty"`
	Value *hexutil.Big    `json:"value,omitempty"`
	Data  hexutil.Bytes   `json:"data,omitempty"`
	Gas   hexutil.Uint64  `json:"gas,omitempty"`
	Tip   *hexutil.Big    `json:"maxPriorityFeePerGas,omitempty"`
	Cap   *hexutil.Big    `json:"maxFeePerGas,omitempty"`
}

// priced returns the payload as the chain runs it: the treasury sends it, and gas has its price.
func (c *Chain) priced(p payload, t terms) message {
	return message{From: &c.treasury, To: &p.to, Value: (*hexutil.Big)(p.value), Data: p.data,
		Gas: hexutil.Uint64(t.Gas), Tip: (*hexutil.Big)(t.TipWei), Cap: (*hexutil.Big)(t.CapWei)}
}

// A payload is the effect of a transfer: the called address, the call and the ether.
type payload struct {
	to    common.Address
	value *big.Int // wei
	data  []byte
}

// payload returns the payload of a transfer.
func (c *Chain) payload(to common.Address, amount money.Crypto) (payload, error) {
	if amount.Currency() == money.ETH {
		return payload{to, amount.Units(), nil}, nil
	}
	token, ok := c.tokens[amount.Currency()]
	if !ok {
		return payload{}, fmt.Errorf("no token is configured for %s", amount.Currency())
	}
	return payload{token, new(big.Int), encodeCall("transfer(address,uint256)", to, amount.Units())}, nil
}

// ether returns an amount of wei.
func ether(wei *big.Int) money.Crypto { return money.NewCrypto(wei, money.ETH) }
