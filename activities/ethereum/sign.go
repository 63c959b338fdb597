package ethereum

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/big"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/treasury"
)

// A Signer has keys of accounts. Its methods may be called from several goroutines.
type Signer interface {
	// Accounts returns the accounts whose keys it has.
	Accounts(ctx context.Context) ([]common.Address, error)
	// Sign returns the transaction, signed by account, as bytes for the network. The caller checks
	// every field of it.
	Sign(ctx context.Context, account common.Address, tx *types.DynamicFeeTx) ([]byte, error)
}

// Sign implements treasury.Chain. It asks no node.
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

// checkSigned compares what a signer returned with what it was asked to sign, and returns its hash.
// Its errors name the fields that differ, without their values.
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
