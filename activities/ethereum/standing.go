package ethereum

import (
	"context"
	"fmt"

	"github.com/ethereum/go-ethereum/common/hexutil"

	"example.com/checkout/workflows/checkout"
)

// Standing implements checkout.Chain. Of two nodes the higher next nonce counts, because either may
// know a transaction that the other does not, and the lower final one. Balances are the first node's.
func (c *Chain) Standing(ctx context.Context) (checkout.AccountStanding, error) {
	s, err := c.standing(ctx)
	if err != nil {
		return checkout.AccountStanding{}, fmt.Errorf("ethereum: standing: %w", err)
	}
	return s, nil
}

func (c *Chain) standing(ctx context.Context) (checkout.AccountStanding, error) {
	views, err := c.views(ctx)
	if err != nil {
		return checkout.AccountStanding{}, err
	}
	var s checkout.AccountStanding
	for i, n := range c.nodes {
		var waiting, latest, final hexutil.Uint64
		err := n.ask(ctx, c.nonceAt("pending", &waiting), c.nonceAt(views[i].head.at(), &latest),
			c.nonceAt(views[i].final.at(), &final))
		if err != nil {
			return checkout.AccountStanding{}, err
		}
		s.NextNonce = max(s.NextNonce, uint64(waiting), uint64(latest))
		if i == 0 || uint64(final) < s.FinalNonce {
			s.FinalNonce = uint64(final)
		}
	}

	s.Height = uint64(views[0].head.Number)
	s.Balances = map[string]string{}
	currencies := []checkout.PayoutCurrency{checkout.ETH}
	for currency := range c.tokens {
		currencies = append(currencies, currency)
	}
	for _, currency := range currencies {
		has, err := c.balance(ctx, c.nodes[0], currency, views[0].head.at())
		if err != nil {
			return checkout.AccountStanding{}, err
		}
		s.Balances[string(currency)] = amountOf(has, currency)
	}
	return s, nil
}
