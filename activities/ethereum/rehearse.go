package ethereum

import (
	"context"
	"fmt"
	"math/big"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"example.com/checkout/workflows/checkout"
)

// afford returns checkout.ErrFloatTooLow when the treasury has less than amount of the currency.
func (c *Chain) afford(ctx context.Context, n *node, currency checkout.PayoutCurrency, amount *big.Int) error {
	has, err := c.balance(ctx, n, currency, "latest")
	if err != nil {
		return err
	}
	if has.Cmp(amount) < 0 {
		return fmt.Errorf("%w: it has %s %s", checkout.ErrFloatTooLow, amountOf(has, currency), currency)
	}
	return nil
}

// balance returns the treasury's balance at a block in the currency's smallest unit.
func (c *Chain) balance(ctx context.Context, n *node, currency checkout.PayoutCurrency, at any) (*big.Int, error) {
	if currency == checkout.ETH {
		var has hexutil.Big
		if err := n.call(ctx, &has, "eth_getBalance", c.treasury, at); err != nil {
			return nil, err
		}
		return has.ToInt(), nil
	}
	token := c.tokens[currency]
	var has hexutil.Bytes
	call := message{To: &token, Data: encodeCall("balanceOf(address)", c.treasury)}
	if err := n.call(ctx, &has, "eth_call", call, at); err != nil {
		return nil, err
	}
	if len(has) != wordSize {
		return nil, fmt.Errorf("%s: the token %s answers no balance", n.name, currency)
	}
	return new(big.Int).SetBytes(has), nil
}

// rehearse simulates the transfer and returns checkout.ErrNotTransferable unless the destination
// receives the whole amount: a token may take a fee, and a contract may refuse ether. It returns
// checkout.ErrFloatTooLow when the treasury has too little ether for the fee.
func (c *Chain) rehearse(
	ctx context.Context, n *node, currency checkout.PayoutCurrency, to common.Address, amount, fee *big.Int,
) error {
	ether, err := c.balance(ctx, n, checkout.ETH, "latest")
	if err != nil {
		return err
	}
	needed := new(big.Int).Set(fee)
	if currency == checkout.ETH {
		needed.Add(needed, amount)
	}
	if ether.Cmp(needed) < 0 {
		return fmt.Errorf("%w: it has %s ETH and needs %s for this and its fee", checkout.ErrFloatTooLow,
			amountOf(ether, checkout.ETH), amountOf(needed, checkout.ETH))
	}

	p, err := c.payload(currency, to, amount)
	if err != nil {
		return err
	}
	if currency == checkout.ETH {
		got, err := c.probe(ctx, n, false, p)
		if err == nil && !got[0].ok {
			err = fmt.Errorf("%w: the destination refuses the ether", checkout.ErrNotTransferable)
		}
		return err
	}
	balance := payload{p.to, nil, encodeCall("balanceOf(address)", to)}
	got, err := c.probe(ctx, n, false, balance, p, balance)
	if err != nil {
		return err
	}
	received := new(big.Int).Sub(got[2].number(), got[0].number())
	if !got[1].moved() || received.Cmp(amount) != 0 {
		return fmt.Errorf("%w: of %s %s the destination would receive %s", checkout.ErrNotTransferable,
			amountOf(amount, currency), currency, amountOf(received, currency))
	}
	return nil
}
