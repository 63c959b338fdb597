package ethereum

import (
	"context"
	"fmt"
	"maps"
	"math/big"
	"slices"

	"github.com/ethereum/go-ethereum/common"

	"example.com/checkout/activities/jsonrpc"
	"example.com/checkout/workflows/address"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/treasury"
)

// control is an address that no token has a reason to refuse. A simulated transfer to it shows whether a refusal is
// about the destination or about the token. Nobody has its key, and nothing is sent to it.
var control = common.HexToAddress("0xc0117401c0117401c0117401c0117401c0117401")

// Check implements treasury.Chain. It returns treasury.ErrNotTransferable when the token cannot be sent to anybody at
// present, such as a paused token.
func (c *Chain) Check(
	ctx context.Context, currency money.PayoutCurrency, destination string,
) (_ checkout.PayoutFailure, err error) {
	defer checkout.Wrap(&err, "ethereum: check %s to %s", currency, destination)
	if _, err := c.payload(common.Address{}, money.NewCrypto(new(big.Int), currency)); err != nil {
		return "", err
	}
	to, err := address.Ethereum(destination)
	if err != nil || c.isOurs(to) {
		return checkout.PayoutInvalidAddress, nil // the fault of the address is the answer
	}
	n, v, err := c.healthy(ctx)
	if err != nil {
		return "", err
	}
	if currency == money.ETH {
		return c.checkEther(ctx, n, v.terms(), to)
	}
	return c.checkToken(ctx, n, v.terms(), c.tokens[currency], to)
}

// isOurs reports whether the address is the treasury's or that of a contract that it uses.
func (c *Chain) isOurs(to common.Address) bool {
	return to == c.treasury || c.oracle != nil && to == *c.oracle ||
		slices.Contains(slices.Collect(maps.Values(c.tokens)), to)
}

// terms returns a price of gas that is enough for the next block.
func (v view) terms() terms {
	base := v.head.BaseFee.ToInt()
	return terms{TipWei: new(big.Int), CapWei: new(big.Int).Add(base, base)}
}

// checkEther simulates a payment of 1 wei: a contract may refuse it.
func (c *Chain) checkEther(
	ctx context.Context, n *jsonrpc.Node, t terms, to common.Address,
) (checkout.PayoutFailure, error) {
	got, err := c.probe(ctx, n, t, payload{to, big.NewInt(1), nil})
	if err != nil || got[0].ok {
		return "", err
	}
	return checkout.PayoutInvalidAddress, nil
}

// checkToken reads the token's blacklist and simulates transfers of nothing. USDC and USDT spell "blacklist"
// differently, and USDT's transfer refuses only a blacklisted sender: a blacklisted receiver would lose the amount.
func (c *Chain) checkToken(
	ctx context.Context, n *jsonrpc.Node, t terms, token, to common.Address,
) (checkout.PayoutFailure, error) {
	send := func(to common.Address) payload {
		return payload{token, nil, encodeCall("transfer(address,uint256)", to, new(big.Int))}
	}
	got, err := c.probe(ctx, n, t,
		payload{token, nil, encodeCall("isBlacklisted(address)", to)},
		payload{token, nil, encodeCall("isBlackListed(address)", to)},
		payload{token, nil, selector("paused()")},
		send(control), send(to))
	if err != nil {
		return "", err
	}
	switch blacklisted, paused, anybody, destination := got[0].yes() || got[1].yes(), got[2].yes(), got[3], got[4]; {
	case blacklisted:
		return checkout.PayoutInvalidAddress, nil
	case paused:
		return "", fmt.Errorf("%w: the token is paused", treasury.ErrNotTransferable)
	case !anybody.moved():
		return "", fmt.Errorf("%w: the token refuses every transfer of the treasury", treasury.ErrNotTransferable)
	case !destination.moved():
		return checkout.PayoutInvalidAddress, nil
	}
	return "", nil
}
