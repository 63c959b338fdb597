package bitcoin

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/btcsuite/btcd/wire"

	"example.com/checkout/activities/jsonrpc"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/treasury"
)

// VersionOf implements treasury.Chain. The budget is the version's fee, because the transaction does not hold the
// budget of the plan.
func (c *Chain) VersionOf(ctx context.Context, all []treasury.Outflow) (_ treasury.TransferVersion, err error) {
	if len(all) == 0 {
		return treasury.TransferVersion{}, errors.New("bitcoin: there is no outflow")
	}
	defer checkout.Wrap(&err, "bitcoin: transaction %s", all[0].TxHash)
	var got walletTx
	if err := c.node.Call(ctx, &got, "gettransaction", all[0].TxHash, true); err != nil {
		return treasury.TransferVersion{}, err
	}
	tx, raw, err := parseHex(got.Hex)
	if err != nil {
		return treasury.TransferVersion{}, fmt.Errorf("%s does not show it", c.node.Name)
	}
	plan := treasury.TransferPlan{Slot: slotOf(tx)}
	for _, o := range all {
		plan.Outputs = append(plan.Outputs, treasury.TransferOutput{Destination: o.Destination, Amount: o.Amount})
	}
	t, err := c.termsOf(ctx, tx, len(plan.Outputs))
	if err != nil {
		return treasury.TransferVersion{}, err
	}
	t.Height = got.Height
	want, err := c.transaction(plan, t)
	if err != nil || checkSigned(raw, want) != nil || c.checkChange(ctx, t) != nil {
		return treasury.TransferVersion{}, treasury.ErrNotSigned
	}
	if err := c.shareMost(plan.Outputs, sats(t.Fee)); err != nil {
		return treasury.TransferVersion{}, err
	}
	if plan, err = nextVersion(plan, t); err != nil {
		return treasury.TransferVersion{}, err
	}
	return treasury.TransferVersion{TransferPlan: plan, TxHash: tx.TxHash().String(), Raw: raw}, nil
}

// shareMost gives each output its highest share of the fee of a version. The payouts shared the fee of the first
// version, less the treasury's part, and that was not more than this fee. Rounding adds at most a satoshi to each.
func (c *Chain) shareMost(outputs []treasury.TransferOutput, fee sats) error {
	weights, err := c.outputWeights(outputs)
	for i, weight := range weights {
		outputs[i].Fee = (fee*sats(weight)/sats(total(weights)) + 1).crypto()
	}
	return err
}

// termsOf reads the terms of a transaction whose first outputs pay others, and the others are the change.
func (c *Chain) termsOf(ctx context.Context, tx *wire.MsgTx, paid int) (terms, error) {
	parents := make([]walletTx, len(tx.TxIn))
	questions := make([]jsonrpc.Question, len(tx.TxIn))
	for i, in := range tx.TxIn {
		questions[i] = jsonrpc.Ask(&parents[i], "gettransaction", in.PreviousOutPoint.Hash.String(), true)
	}
	if err := c.node.Ask(ctx, questions...); err != nil {
		return terms{}, err
	}
	var t terms
	for i, unit := range slotOf(tx) {
		parent, _, err := parseHex(parents[i].Hex)
		if err != nil || int(tx.TxIn[i].PreviousOutPoint.Index) >= len(parent.TxOut) {
			return terms{}, fmt.Errorf("%s: it has no output %s", c.node.Name, unit)
		}
		out := parent.TxOut[tx.TxIn[i].PreviousOutPoint.Index]
		weight, _ := inputWeight(hex.EncodeToString(out.PkScript))
		t.Coins = append(t.Coins, coin{unit, out.Value, weight})
		t.Fee += out.Value
	}
	switch tx.Version {
	case unrestricted:
	case restricted:
		t.Version = restricted
	default:
		return terms{}, treasury.ErrNotSigned
	}
	for i, out := range tx.TxOut {
		t.Fee -= out.Value
		if i >= paid {
			address, err := c.addressOf(out.PkScript)
			if err != nil {
				return terms{}, treasury.ErrNotSigned
			}
			t.Change = append(t.Change, change{address, out.Value})
		}
	}
	t.Budget = t.Fee
	return t, nil
}
