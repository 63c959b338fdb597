package ethereum

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/treasury"
)

// VersionOf implements treasury.Chain. The estimate follows from the gas limit. The budget is the version's highest
// cost, because the transaction does not hold the budget of the plan.
func (c *Chain) VersionOf(ctx context.Context, all []treasury.Outflow) (_ treasury.TransferVersion, err error) {
	o := all[0]
	defer checkout.Wrap(&err, "ethereum: transaction %s", o.TxHash)
	if len(all) > 1 {
		return treasury.TransferVersion{}, treasury.ErrNotSigned
	}
	plan := treasury.TransferPlan{
		Slot: o.Slot, Outputs: []treasury.TransferOutput{{Destination: o.Destination, Amount: o.Amount}}}
	p, err := c.payloadOf(plan)
	nonce, isNonce := o.Slot.Number()
	if err != nil || !isNonce {
		return treasury.TransferVersion{}, errors.Join(treasury.ErrNotSigned, err)
	}
	n, _, err := c.healthy(ctx)
	if err != nil {
		return treasury.TransferVersion{}, err
	}
	var answer json.RawMessage
	if err := n.Call(ctx, &answer, "eth_getTransactionByHash", common.HexToHash(o.TxHash)); err != nil {
		return treasury.TransferVersion{}, err
	}
	tx := new(types.Transaction)
	if err := tx.UnmarshalJSON(answer); err != nil {
		return treasury.TransferVersion{}, fmt.Errorf("%s does not show it", n.Name)
	}
	raw, err := tx.MarshalBinary()
	if err != nil {
		return treasury.TransferVersion{}, err
	}
	hash, err := c.checkSigned(raw, &types.DynamicFeeTx{
		ChainID: new(big.Int).SetUint64(c.chainID), Nonce: nonce, GasTipCap: tx.GasTipCap(),
		GasFeeCap: tx.GasFeeCap(), Gas: tx.Gas(), To: &p.to, Value: p.value, Data: p.data,
	})
	if err != nil || hash != common.HexToHash(o.TxHash) {
		return treasury.TransferVersion{}, treasury.ErrNotSigned
	}

	t := terms{Gas: tx.Gas(), Estimate: tx.Gas() - 1 - (tx.Gas()-1)/5, TipWei: tx.GasTipCap(), CapWei: tx.GasFeeCap()}
	t.BudgetWei = cost(t.Estimate, t.CapWei)
	plan.MaxCost = ether(t.maxCost())
	plan.Outputs[0].Fee = plan.MaxCost
	if plan.Terms, err = t.encode(); err != nil {
		return treasury.TransferVersion{}, err
	}
	return treasury.TransferVersion{TransferPlan: plan, TxHash: hash.Hex(), Raw: raw}, nil
}
