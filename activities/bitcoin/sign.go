package bitcoin

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/btcsuite/btcd/wire"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/treasury"
)

// Sign implements treasury.Chain. The node provides the coins' scripts and keys, and the signer the signatures.
func (c *Chain) Sign(ctx context.Context, plan treasury.TransferPlan) (_ treasury.TransferVersion, err error) {
	defer checkout.Wrap(&err, "bitcoin: sign")
	if !c.signs {
		return treasury.TransferVersion{}, errors.New("this process has no signer")
	}
	t, err := decodeTerms(plan.Terms)
	if err != nil {
		return treasury.TransferVersion{}, err
	}
	if err := c.checkTerms(plan, t); err != nil {
		return treasury.TransferVersion{}, err
	}
	if err := errors.Join(c.checkChange(ctx, t), c.checkSignersChange(ctx, t)); err != nil {
		return treasury.TransferVersion{}, err
	}
	tx, err := c.transaction(plan, t)
	if err != nil {
		return treasury.TransferVersion{}, err
	}
	raw, err := c.signTransaction(ctx, tx)
	if err != nil {
		return treasury.TransferVersion{}, err
	}
	if err := checkSigned(raw, tx); err != nil {
		return treasury.TransferVersion{}, fmt.Errorf("signer: %w", err)
	}
	return treasury.TransferVersion{TransferPlan: plan, TxHash: tx.TxHash().String(), Raw: raw}, nil
}

// checkSignersChange checks with the signer that the change belongs to its wallet. The node that gave the addresses has
// no keys: whoever controls only that node must not receive the change.
func (c *Chain) checkSignersChange(ctx context.Context, t terms) error {
	if c.signer == c.node {
		return nil
	}
	for _, change := range t.Change {
		var info struct {
			Mine bool `json:"ismine"`
		}
		if err := c.signer.Call(ctx, &info, "getaddressinfo", change.Address); err != nil {
			return err
		}
		if !info.Mine {
			return fmt.Errorf("signer: %w: %s", errForeignChange, change.Address)
		}
	}
	return nil
}

var errForeignChange = errors.New("the change would leave its wallet")

// prepareSigner makes the signer's wallet derive the addresses of the change. It hands out none itself, so it has
// derived only the first ones.
func (c *Chain) prepareSigner(ctx context.Context, t terms) error {
	if !c.signs {
		return nil
	}
	err := c.checkSignersChange(ctx, t)
	if !errors.Is(err, errForeignChange) {
		return err
	}
	const more = 1_000 // addresses
	var info struct {
		Known int `json:"keypoolsize_hd_internal"`
	}
	if err := c.signer.Call(ctx, &info, "getwalletinfo"); err != nil {
		return err
	}
	if err := c.signer.Call(ctx, nil, "keypoolrefill", info.Known+more); err != nil {
		return err
	}
	return c.checkSignersChange(ctx, t)
}

// A processed is the answer of walletprocesspsbt.
type processed struct {
	PSBT     string `json:"psbt"`
	Complete bool   `json:"complete"`
	Hex      string `json:"hex"`
}

// signTransaction returns the signed bytes of a transaction.
func (c *Chain) signTransaction(ctx context.Context, tx *wire.MsgTx) ([]byte, error) {
	unsigned, err := psbt(tx)
	if err != nil {
		return nil, err
	}
	var got processed
	if c.signer != c.node {
		// The node knows the coins, and the signer the keys.
		if err := c.node.Call(ctx, &got, "walletprocesspsbt", unsigned, false, "DEFAULT", true, false); err != nil {
			return nil, err
		}
		unsigned = got.PSBT
	}
	if err := c.signer.Call(ctx, &got, "walletprocesspsbt", unsigned, true, "DEFAULT", true, true); err != nil {
		return nil, err
	}
	raw, err := hex.DecodeString(got.Hex)
	if !got.Complete || err != nil || len(raw) == 0 {
		return nil, fmt.Errorf("%s: it did not sign every input", c.signer.Name)
	}
	return raw, nil
}

// psbt returns an unsigned transaction as a PSBT. Source: BIP-174.
func psbt(tx *wire.MsgTx) (string, error) {
	var unsigned, all bytes.Buffer
	if err := tx.SerializeNoWitness(&unsigned); err != nil {
		return "", err
	}
	all.WriteString("psbt\xff\x01\x00")
	if err := wire.WriteVarBytes(&all, 0, unsigned.Bytes()); err != nil {
		return "", err
	}
	// An empty map for all, and one for each input and output.
	all.Write(make([]byte, 1+len(tx.TxIn)+len(tx.TxOut)))
	return base64.StdEncoding.EncodeToString(all.Bytes()), nil
}

// checkSigned compares the signed transaction with the unsigned one, input by input and output by output.
func checkSigned(raw []byte, want *wire.MsgTx) error {
	got, err := parse(raw)
	if err != nil {
		return errors.New("it returned something else than a transaction")
	}
	var different []error
	differs := func(format string, args ...any) { different = append(different, fmt.Errorf(format, args...)) }
	if got.Version != want.Version || got.LockTime != want.LockTime {
		differs("it changed the version or the lock time")
	}
	if len(got.TxIn) != len(want.TxIn) || len(got.TxOut) != len(want.TxOut) {
		return errors.New("it changed the number of inputs or outputs")
	}
	for i, in := range got.TxIn {
		if in.PreviousOutPoint != want.TxIn[i].PreviousOutPoint || in.Sequence != want.TxIn[i].Sequence ||
			len(in.SignatureScript) > 0 {
			differs("it changed input %d", i)
		}
		if len(in.Witness) == 0 {
			differs("it did not sign input %d", i)
		}
	}
	for i, out := range got.TxOut {
		if out.Value != want.TxOut[i].Value || !bytes.Equal(out.PkScript, want.TxOut[i].PkScript) {
			differs("it changed output %d", i)
		}
	}
	return errors.Join(different...)
}
