package ethereum

import (
	"fmt"
	"math/big"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/shopspring/decimal"

	"example.com/checkout/workflows/checkout"
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
}

// A payload is what a transfer does: who gets which call with how much ether.
type payload struct {
	to    common.Address
	value *big.Int // wei
	data  []byte
}

// payload returns the payload of a transfer of amount, in the currency's smallest unit.
func (c *Chain) payload(currency checkout.PayoutCurrency, to common.Address, amount *big.Int) (payload, error) {
	if currency == checkout.ETH {
		return payload{to, amount, nil}, nil
	}
	token, ok := c.tokens[currency]
	if !ok {
		return payload{}, fmt.Errorf("no token is configured for %s", currency)
	}
	return payload{token, new(big.Int), encodeCall("transfer(address,uint256)", to, amount)}, nil
}

// units returns a decimal amount in its smallest unit, rounded down.
func units(amount decimal.Decimal, places int32) *big.Int {
	return amount.Shift(places).Truncate(0).BigInt()
}

// parseUnits reads a decimal amount of a currency into its smallest unit. The amount must be above 0
// and have no more places than the currency.
func parseUnits(text string, currency checkout.PayoutCurrency) (*big.Int, error) {
	amount, err := decimal.NewFromString(text)
	if err != nil {
		return nil, fmt.Errorf("amount: %w", err)
	}
	if shifted := amount.Shift(currency.Places()); amount.IsPositive() && shifted.IsInteger() {
		return shifted.BigInt(), nil
	}
	return nil, fmt.Errorf("amount %s is not a positive amount of %s", text, currency)
}

// amountOf returns an amount in its smallest unit as a decimal of the currency.
func amountOf(smallest *big.Int, currency checkout.PayoutCurrency) string {
	places := currency.Places()
	return decimal.NewFromBigInt(smallest, -places).StringFixed(places)
}
