package chains

import (
	"bytes"
	"context"
	"encoding/hex"

	"github.com/btcsuite/btcd/wire"
)

// A Child is a transaction that spends an output of another one, its parent, before a block has that.
type Child struct {
	Version   int32
	Size, Fee int64 // in virtual bytes: SmallChild, and multiples of 31 more; in satoshis
}

// SmallChild is the size of a child with one output.
const SmallChild = 110

// Sign returns the digits of a child that spends an output of the parent in a wallet, and pays nobody.
func (c Child) Sign(ctx context.Context, b *Bitcoin, wallet string, parent []byte, output int) (string, error) {
	const (
		each = 31  // the size of another output
		dust = 294 // the least amount of an output
	)
	var from wire.MsgTx
	if err := from.Deserialize(bytes.NewReader(parent)); err != nil {
		return "", err
	}
	hash, nobody := from.TxHash(), append([]byte{0, 20}, make([]byte, 20)...)
	tx := wire.NewMsgTx(c.Version)
	tx.AddTxIn(wire.NewTxIn(wire.NewOutPoint(&hash, uint32(output)), nil, nil)) //nolint:gosec // G115: some outputs
	more := (c.Size - SmallChild) / each
	tx.AddTxOut(wire.NewTxOut(from.TxOut[output].Value-c.Fee-more*dust, nobody))
	for range more {
		tx.AddTxOut(wire.NewTxOut(dust, nobody))
	}
	var raw bytes.Buffer
	if err := tx.Serialize(&raw); err != nil {
		return "", err
	}
	var signed struct {
		Hex string `json:"hex"`
	}
	err := b.Call(ctx, wallet, &signed, "signrawtransactionwithwallet", hex.EncodeToString(raw.Bytes()))
	return signed.Hex, err
}

// Spend gives the node a child that spends an output of the parent in a wallet. It returns the child's id.
func (b *Bitcoin) Spend(
	ctx context.Context, wallet string, parent []byte, output int, c Child,
) (txid string, err error) {
	digits, err := c.Sign(ctx, b, wallet, parent, output)
	if err == nil {
		err = b.Call(ctx, "", &txid, "sendrawtransaction", digits, 0)
	}
	return txid, err
}
