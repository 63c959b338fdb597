package invariant

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/big"
	"slices"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/jackc/pgx/v5"

	"example.com/checkout/deploy/standin/acquirer"
	"example.com/checkout/deploy/standin/chains"
	"example.com/checkout/deploy/standin/devstack"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/treasury"
)

// LiveSources are the witnesses of a simulated live mode.
type LiveSources struct {
	Double *devstack.LiveDouble
	// Destinations are payout addresses by network. They had nothing before, and only payouts pay them.
	Destinations map[string][]string
	Siege
}

// Theft is a transaction that somebody else sent with the treasury's key.
type Theft struct {
	TxHash string `json:"tx_hash"`
	Froze  string `json:"froze"` // why the account was frozen after it; "" when it was not
}

// Live says what happened outside the service.
type Live struct {
	Intents  []acquirer.IntentFact
	Charges  []acquirer.ChargeFact
	Sent     []SentTransaction // the treasury's transactions in the blocks of each chain, in their order
	Nonce    uint64            // the treasury's next one on Ethereum
	Treasury map[money.PayoutCurrency]*big.Int
	Balances map[string]map[money.PayoutCurrency]*big.Int // by LiveSources.Destinations
	Siege
}

// SentTransaction is a transaction of the treasury in a block.
type SentTransaction struct {
	TxHash   string
	Slot     treasury.Slot
	To       string // the destination, or the token; "" on Bitcoin
	Reverted bool   // it moved nothing
	Hasty    bool   // it spent a coin that was not final
}

// Transfer is a signed transfer of live payouts.
type Transfer struct {
	ID       string
	Payouts  []string // ids
	Slot     treasury.Slot
	Status   treasury.TransferState
	TxHash   string   // of the version that was mined; "" while nobody knows
	Versions []string // hashes
}

// LedgerBalance is the sum of one account of the ledger in one asset.
type LedgerBalance struct {
	Account, Asset string
	Amount         string // whole number of the asset's smallest unit
}

// readTransfers reads the transfers and the balances of the ledger. What the card network settled of its receivable
// stands apart, as "acquirer:receivable settled": when it is settled depends on the schedule.
func readTransfers(ctx context.Context, tx pgx.Tx, f *Facts) error {
	return cmp.Or(
		read(ctx, tx, &f.Transfers, `
			SELECT t.id, ARRAY(SELECT x.payout_id FROM transfer_payout x WHERE x.transfer_id = t.id),
				coalesce((SELECT array_agg(s.unit) FROM transfer_slot s WHERE s.transfer_id = t.id), ARRAY[t.nonce::text]),
				t.status, coalesce(t.tx_hash, ''),
				ARRAY(SELECT v.tx_hash FROM transfer_version v WHERE v.transfer_id = t.id ORDER BY v.number)
			FROM transfer t JOIN treasury_account a ON a.id = t.account_id WHERE a.mode = 'live' ORDER BY t.nonce`),
		read(ctx, tx, &f.Ledger, `
			SELECT p.account || CASE WHEN p.account = 'acquirer:receivable' AND e.kind = 'charge_cost' THEN ' settled'
				ELSE '' END, p.asset, sum(p.amount)::text
			FROM ledger_posting p JOIN ledger_entry e ON e.id = p.entry_id
			WHERE p.mode = 'live' GROUP BY 1, 2 ORDER BY 1, 2`),
		collect(ctx, tx, &f.Unbalanced, `
			SELECT e.kind || ' of ' || e.subject || ' by ' || sum(p.amount) || ' ' || p.asset
			FROM ledger_posting p JOIN ledger_entry e ON e.id = p.entry_id
			GROUP BY e.id, p.asset HAVING sum(p.amount) <> 0 ORDER BY e.id`, pgx.RowTo[string]),
	)
}

// readLive asks the double of the card network and the chain. addLiveCharges adds the double's charges to the
// sandbox's.
func readLive(ctx context.Context, s Sources, f *Facts) error {
	if s.Live == nil {
		return nil
	}
	d := s.Live.Double
	f.Live = &Live{
		Siege: s.Live.Siege, Treasury: map[money.PayoutCurrency]*big.Int{},
		Balances: map[string]map[money.PayoutCurrency]*big.Int{},
	}
	known, err := d.Acquirer.Facts(ctx)
	if err != nil {
		return err
	}
	f.Live.Intents, f.Live.Charges = known.Intents, known.Charges
	f.addLiveCharges()
	if err := errors.Join(f.Live.readEthereum(ctx, d), f.Live.readBitcoin(ctx, d)); err != nil {
		return err
	}
	for _, c := range LiveCurrencies {
		if f.Live.Treasury[c], err = d.TreasuryBalance(ctx, c); err != nil {
			return err
		}
		for _, address := range s.Live.Destinations[c.Network()] {
			if f.Live.Balances[address] == nil {
				f.Live.Balances[address] = map[money.PayoutCurrency]*big.Int{}
			}
			if f.Live.Balances[address][c], err = d.BalanceOf(ctx, address, c); err != nil {
				return err
			}
		}
	}
	return nil
}

// addLiveCharges adds the double's charges to the sandbox's, except those that decided no session and went back.
func (f *Facts) addLiveCharges() {
	transactions := by(f.Transactions, func(t Transaction) string { return t.ID })
	for _, c := range f.Live.Charges {
		t := transactions[c.TransactionID]
		if c.Paid && (c.Refunded < c.Amount || t.Status == checkout.TransactionSucceeded) {
			f.Charges = append(f.Charges, Charge{c.TransactionID, t.SessionID, checkout.OutcomeSucceeded})
		}
	}
}

// LiveCurrencies are the currencies that the simulated treasury pays.
var LiveCurrencies = []money.PayoutCurrency{money.ETH, money.USDC, money.USDT, money.BTC}

// CurrenciesOn returns the currencies of a network.
func CurrenciesOn(network string) []money.PayoutCurrency {
	return slices.DeleteFunc(slices.Clone(LiveCurrencies), func(c money.PayoutCurrency) bool {
		return c.Network() != network
	})
}

// readEthereum reads the treasury's transactions from every block. After a reorganization a node may
// still show receipts of replaced blocks, so it is asked only for transactions in present blocks.
func (l *Live) readEthereum(ctx context.Context, d *devstack.LiveDouble) error {
	var nonce, head hexutil.Uint64
	err := errors.Join(
		d.Anvil.Call(ctx, &nonce, "eth_getTransactionCount", d.Treasury(), "latest"),
		d.Anvil.Call(ctx, &head, "eth_blockNumber"),
	)
	if err != nil {
		return err
	}
	l.Nonce = uint64(nonce)
	for height := range head + 1 {
		var block struct {
			Transactions []struct {
				Hash  common.Hash     `json:"hash"`
				From  common.Address  `json:"from"`
				To    *common.Address `json:"to"` // nil: it deployed a contract
				Nonce hexutil.Uint64  `json:"nonce"`
			} `json:"transactions"`
		}
		if err := d.Anvil.Call(ctx, &block, "eth_getBlockByNumber", height, true); err != nil {
			return err
		}
		for _, tx := range block.Transactions {
			if tx.From != d.Treasury() {
				continue
			}
			var receipt chains.Receipt
			if err := d.Anvil.Call(ctx, &receipt, "eth_getTransactionReceipt", tx.Hash); err != nil {
				return err
			}
			l.Sent = append(l.Sent, SentTransaction{
				TxHash: tx.Hash.Hex(), Slot: treasury.NumberSlot(uint64(tx.Nonce)), To: tx.To.Hex(), Reverted: receipt.Status != 1,
			})
		}
	}
	return nil
}

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

// readBitcoin reads the treasury's transactions from every block: its wallet is asked for its addresses only.
func (l *Live) readBitcoin(ctx context.Context, d *devstack.LiveDouble) error {
	var head int
	if err := d.Bitcoin.Call(ctx, "", &head, "getblockcount"); err != nil {
		return err
	}
	coins := map[string]int{} // heights of the treasury's coins
	for height := 1; height <= head; height++ {
		var hash string
		var block struct {
			Tx []bitcoinTx `json:"tx"`
		}
		if err := d.Bitcoin.Call(ctx, "", &hash, "getblockhash", height); err != nil {
			return err
		}
		if err := d.Bitcoin.Call(ctx, "", &block, "getblock", hash, 2); err != nil {
			return err
		}
		for _, tx := range block.Tx[1:] { // the first one is the miner's reward
			if sent := tx.spent(coins, height); len(sent.Slot) > 0 {
				l.Sent = append(l.Sent, sent)
			}
			if err := tx.addCoins(ctx, d, coins, height); err != nil {
				return err
			}
		}
	}
	return nil
}

// spent returns the transaction with the treasury's coins that it spent.
func (tx bitcoinTx) spent(coins map[string]int, height int) SentTransaction {
	sent := SentTransaction{TxHash: tx.TxID}
	for _, in := range tx.In {
		coin := fmt.Sprintf("%s:%d", in.TxID, in.Vout)
		if made, ours := coins[coin]; ours {
			sent.Slot = append(sent.Slot, coin)
			sent.Hasty = sent.Hasty || height-made < devstack.BitcoinConfirmations
		}
	}
	return sent
}

// addCoins notes the coins that a transaction makes for the treasury.
func (tx bitcoinTx) addCoins(ctx context.Context, d *devstack.LiveDouble, coins map[string]int, height int) error {
	for _, out := range tx.Out {
		var info struct {
			Mine bool `json:"ismine"`
		}
		if out.Script.Address == "" {
			continue
		}
		if err := d.Bitcoin.Call(ctx, devstack.TreasuryWallet, &info, "getaddressinfo", out.Script.Address); err != nil {
			return err
		}
		if info.Mine {
			coins[fmt.Sprintf("%s:%d", tx.TxID, out.N)] = height
		}
	}
	return nil
}
