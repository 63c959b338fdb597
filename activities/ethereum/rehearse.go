package ethereum

import (
	"context"
	"errors"
	"fmt"
	"math/big"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"example.com/checkout/activities/jsonrpc"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/treasury"
)

// checkFloat returns treasury.ErrFloatTooLow when the treasury has less than amount.
func (c *Chain) checkFloat(ctx context.Context, n *jsonrpc.Node, amount money.Crypto) error {
	has, err := c.balance(ctx, n, amount.Currency(), "latest")
	if err != nil {
		return err
	}
	if has.Cmp(amount) < 0 {
		return fmt.Errorf("%w: it has %s", treasury.ErrFloatTooLow, has.Named())
	}
	return nil
}

// balance returns the treasury's balance at a block.
func (c *Chain) balance(
	ctx context.Context, n *jsonrpc.Node, currency money.PayoutCurrency, at any,
) (money.Crypto, error) {
	if currency == money.ETH {
		var has hexutil.Big
		if err := n.Call(ctx, &has, "eth_getBalance", c.treasury, at); err != nil {
			return money.Crypto{}, err
		}
		return ether(has.ToInt()), nil
	}
	token := c.tokens[currency]
	var has hexutil.Bytes
	call := message{To: &token, Data: encodeCall("balanceOf(address)", c.treasury)}
	if err := n.Call(ctx, &has, "eth_call", call, at); err != nil {
		return money.Crypto{}, err
	}
	if len(has) != wordSize {
		return money.Crypto{}, fmt.Errorf("%s: the token %s answers no balance", n.Name, currency)
	}
	return money.NewCrypto(new(big.Int).SetBytes(has), currency), nil
}

// rehearseTransfer simulates the transfer as the chain runs it, and returns treasury.ErrNotTransferable unless the
// destination receives the whole amount: a token may take a fee, and a contract may refuse ether. It returns
// treasury.ErrFloatTooLow when the treasury has too little ether for the fee.
func (c *Chain) rehearseTransfer(
	ctx context.Context, n *jsonrpc.Node, to common.Address, amount money.Crypto, t terms,
) error {
	has, err := c.balance(ctx, n, money.ETH, "latest")
	if err != nil {
		return err
	}
	needed := ether(t.maxCost())
	if amount.Currency() == money.ETH {
		needed = needed.Add(amount)
	}
	if has.Cmp(needed) < 0 {
		return fmt.Errorf("%w: it has %s ETH and needs %s for this and its fee", treasury.ErrFloatTooLow, has, needed)
	}

	p, err := c.payload(to, amount)
	if err != nil {
		return err
	}
	// A contract can tell a probe from its payer, which has no code. So the transfer itself is simulated too.
	if err := n.Call(ctx, new(hexutil.Bytes), "eth_call", c.priced(p, t), "latest"); err != nil {
		return notTransferable(err)
	}
	if amount.Currency() == money.ETH {
		return nil
	}
	balance := payload{p.to, nil, encodeCall("balanceOf(address)", to)}
	got, err := c.probe(ctx, n, t, balance, p, balance)
	if err != nil {
		return err
	}
	received := money.NewCrypto(new(big.Int).Sub(got[2].number(), got[0].number()), amount.Currency())
	if !got[1].moved() || received.Cmp(amount) != 0 {
		return fmt.Errorf("%w: of %s %s the destination would receive %s", treasury.ErrNotTransferable,
			amount, amount.Currency(), received)
	}
	return nil
}

// notTransferable returns treasury.ErrNotTransferable for a node's refusal, whatever its words: the payout waits, and
// is tried again.
func notTransferable(err error) error {
	if _, refused := errors.AsType[*jsonrpc.Refusal](err); refused {
		return fmt.Errorf("%w: %w", treasury.ErrNotTransferable, err)
	}
	return err
}
