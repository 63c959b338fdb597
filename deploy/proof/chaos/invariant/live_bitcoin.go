package invariant

import (
	"context"
	"fmt"

	"example.com/checkout/deploy/standin/devstack"
)

// A bitcoinTx is a transaction as getblock has it.
type bitcoinTx struct {
	TxID string `json:"txid"`
	In   []struct {
		TxID string `json:"txid"`
		Vout uint32 `json:"vout"`
	} `json:"vin"`
	Out []struct {
		N      uint32 `json:"n"`
		Script struct {
			Address string `json:"address"` // "" when it has none
		} `json:"scriptPubKey"`
	} `json:"vout"`
}

// bitcoinReader finds the transactions that spend the treasury's coins.
type bitcoinReader struct {
	double *devstack.LiveDouble
	coins  map[string]int // heights of the treasury's coins
}

// readBitcoin reads the treasury's transactions from every block: its wallet is asked for its addresses only.
func (l *Live) readBitcoin(ctx context.Context, d *devstack.LiveDouble) error {
	var head int
	if err := d.Bitcoin.Call(ctx, "", &head, "getblockcount"); err != nil {
		return err
	}
	r := bitcoinReader{d, map[string]int{}}
	for height := 1; height <= head; height++ {
		var (
			hash  string
			block struct {
				Tx []bitcoinTx `json:"tx"`
			}
		)
		if err := d.Bitcoin.Call(ctx, "", &hash, "getblockhash", height); err != nil {
			return err
		}
		if err := d.Bitcoin.Call(ctx, "", &block, "getblock", hash, 2); err != nil {
			return err
		}
		for _, tx := range block.Tx[1:] { // the first one is the miner's reward
			if sent := r.sent(tx, height); len(sent.Slot) > 0 {
				l.Sent = append(l.Sent, sent)
			}
			if err := r.keep(ctx, tx, height); err != nil {
				return err
			}
		}
	}
	return nil
}

// sent returns the transaction with those of its coins that are the treasury's.
func (r bitcoinReader) sent(tx bitcoinTx, height int) SentTransaction {
	sent := SentTransaction{TxHash: tx.TxID}
	for _, in := range tx.In {
		coin := fmt.Sprintf("%s:%d", in.TxID, in.Vout)
		if made, ours := r.coins[coin]; ours {
			sent.Slot = append(sent.Slot, coin)
			sent.Hasty = sent.Hasty || height-made < devstack.BitcoinConfirmations
		}
	}
	return sent
}

// keep notes the coins that a transaction makes for the treasury.
func (r bitcoinReader) keep(ctx context.Context, tx bitcoinTx, height int) error {
	for _, out := range tx.Out {
		var info struct {
			Mine bool `json:"ismine"`
		}
		if out.Script.Address == "" {
			continue
		}
		err := r.double.Bitcoin.Call(ctx, devstack.TreasuryWallet, &info, "getaddressinfo", out.Script.Address)
		if err != nil {
			return err
		}
		if info.Mine {
			r.coins[fmt.Sprintf("%s:%d", tx.TxID, out.N)] = height
		}
	}
	return nil
}
