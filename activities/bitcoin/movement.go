package bitcoin

import (
	"context"
	"fmt"

	"github.com/btcsuite/btcd/wire"

	"example.com/checkout/activities/jsonrpc"
)

// A movement is a transaction that spends coins of the wallet.
type movement struct {
	txid          string
	confirmations int64 // 0 outside the chain; below 0 when another transaction with one of its coins is in the chain
	height        uint64
	block         string
	fee           sats
	paid          []payment // to others, in the order of the outputs
	tx            *wire.MsgTx
}

// A payment is an output.
type payment struct {
	address string // "" when it has none
	amount  sats
	vout    uint32
}

// A listed is an output as listsinceblock has it.
type listed struct {
	TxID          string `json:"txid"`
	Vout          uint32 `json:"vout"`
	Address       string `json:"address"`
	Category      string `json:"category"` // send and receive; an output to the wallet itself is both
	Amount        sats   `json:"amount"`
	Fee           sats   `json:"fee"` // below 0
	Confirmations int64  `json:"confirmations"`
	Height        uint64 `json:"blockheight"`
	Block         string `json:"blockhash"`
}

// A walletTx is a transaction as gettransaction has it.
type walletTx struct {
	Confirmations int64  `json:"confirmations"`
	Height        uint64 `json:"blockheight"`
	Block         string `json:"blockhash"`
	Hex           string `json:"hex"`
}

// movements returns the movements in the blocks above a height, and those in no block. The wallet has them also when
// the node has deleted the blocks (pruned).
func (c *Chain) movements(ctx context.Context, above uint64) ([]*movement, error) {
	var hash string
	if err := c.node.Call(ctx, &hash, "getblockhash", above); err != nil {
		return nil, err
	}
	var since struct {
		Transactions []listed `json:"transactions"`
	}
	// Addresses that are only watched too, without what a reorganization removed, with the change.
	if err := c.node.Call(ctx, &since, "listsinceblock", hash, 1, true, false, true); err != nil {
		return nil, err
	}
	all := groupMovements(since.Transactions)
	got, questions := make([]walletTx, len(all)), make([]jsonrpc.Question, len(all))
	for i, m := range all {
		questions[i] = jsonrpc.Ask(&got[i], "gettransaction", m.txid, true)
	}
	if err := c.node.Ask(ctx, questions...); err != nil {
		return nil, err
	}
	for i, m := range all {
		var err error
		if m.tx, _, err = parseHex(got[i].Hex); err != nil {
			return nil, fmt.Errorf("%s: gettransaction: %w", c.node.Name, err)
		}
	}
	return all, nil
}

// groupMovements puts the outputs of each movement together, in the order of the list.
func groupMovements(outputs []listed) (all []*movement) {
	type output struct {
		txid string
		vout uint32
	}
	own, by := map[output]bool{}, map[string]*movement{}
	for _, o := range outputs {
		if o.Category != "send" {
			own[output{o.TxID, o.Vout}] = true
		}
	}
	for _, o := range outputs {
		if o.Category != "send" {
			continue
		}
		m := by[o.TxID]
		if m == nil {
			m = &movement{
				txid: o.TxID, confirmations: o.Confirmations, height: o.Height, block: o.Block, fee: -o.Fee}
			by[o.TxID], all = m, append(all, m)
		}
		if !own[output{o.TxID, o.Vout}] {
			m.paid = append(m.paid, payment{o.Address, -o.Amount, o.Vout})
		}
	}
	return all
}
