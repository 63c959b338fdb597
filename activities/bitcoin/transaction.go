package bitcoin

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/btcsuite/btcd/txscript"
	"github.com/btcsuite/btcd/wire"

	"example.com/checkout/workflows/address"
	"example.com/checkout/workflows/treasury"
)

const (
	replaceable = wire.MaxTxInSequenceNum - 2 // of an input: a version with a higher fee may follow
	mostPayouts = 100
)

// A transaction of version 3 has one unconfirmed child at most, and that is small. So a payee who spends an unconfirmed
// output cannot make the next version of a transfer as expensive as it likes. Sizes are in virtual bytes.
// Source: BIP-431.
const (
	unrestricted      = 2 // the version of the transactions of 1.0.0
	restricted        = 3
	largestRestricted = 10_000
	largestChild      = 1_000
)

// script returns the script of an address of the network.
func (c *Chain) script(text string) ([]byte, error) {
	got, err := address.Bitcoin(text, c.network.params)
	if err != nil {
		return nil, fmt.Errorf("the address %w", err)
	}
	return txscript.PayToAddrScript(got)
}

// transaction returns the unsigned transaction of a plan: its slot, its outputs, and the change.
func (c *Chain) transaction(plan treasury.TransferPlan, t terms) (*wire.MsgTx, error) {
	tx := wire.NewMsgTx(cmp.Or(t.Version, unrestricted))
	for _, unit := range plan.Slot {
		spent, err := outpoint(unit)
		if err != nil {
			return nil, err
		}
		in := wire.NewTxIn(&spent, nil, nil)
		in.Sequence = replaceable
		tx.AddTxIn(in)
	}
	add := func(address string, amount int64) error {
		script, err := c.script(address)
		if err == nil {
			tx.AddTxOut(wire.NewTxOut(amount, script))
		}
		return err
	}
	for _, o := range plan.Outputs {
		amount, err := satsOf(o.Amount)
		if err == nil {
			err = add(o.Destination, int64(amount))
		}
		if err != nil {
			return nil, err
		}
	}
	for _, change := range t.Change {
		if err := add(change.Address, change.Sats); err != nil {
			return nil, err
		}
	}
	return tx, nil
}

// changeWeight is that of an output to an address of the wallet (P2WPKH).
const changeWeight = 4 * (8 + 1 + 22)

// outputWeight returns the weight of an output.
func outputWeight(script []byte) int64 { return 4 * int64(8+1+len(script)) }

// size returns the size of a signed transaction in virtual bytes, or a few bytes more: signatures differ in length.
func size(inputs []coin, outputs int64, number int) int64 {
	weight := 4*(4+4+countSize(len(inputs))+countSize(number)) + 2 + outputs // version, lock time, counts, marker
	for _, in := range inputs {
		weight += in.Weight
	}
	return (weight + 3) / 4
}

// countSize is the size of a number of inputs or outputs.
func countSize(n int) int64 { return int64(wire.VarIntSerializeSize(uint64(n))) } //nolint:gosec // G115: not negative

// parse reads a signed transaction.
func parse(raw []byte) (*wire.MsgTx, error) {
	tx, from := new(wire.MsgTx), bytes.NewReader(raw)
	if err := tx.Deserialize(from); err != nil || from.Len() > 0 {
		return nil, errors.New("it is not a transaction")
	}
	return tx, nil
}

// parseHex reads a signed transaction from its digits.
func parseHex(digits string) (*wire.MsgTx, []byte, error) {
	raw, err := hex.DecodeString(digits)
	if err != nil {
		return nil, nil, errors.New("it is not a transaction")
	}
	tx, err := parse(raw)
	return tx, raw, err
}

// slotOf returns the coins that a transaction spends.
func slotOf(tx *wire.MsgTx) treasury.Slot {
	slot := make(treasury.Slot, len(tx.TxIn))
	for i, in := range tx.TxIn {
		slot[i] = unit(in.PreviousOutPoint.Hash.String(), in.PreviousOutPoint.Index)
	}
	return slot
}

// addressOf returns the one address of a script.
func (c *Chain) addressOf(script []byte) (string, error) {
	_, addresses, _, err := txscript.ExtractPkScriptAddrs(script, c.network.params)
	if err != nil || len(addresses) != 1 {
		return "", errors.New("it has no address")
	}
	return addresses[0].EncodeAddress(), nil
}
