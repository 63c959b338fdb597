package invariant

import (
	"context"
	"errors"
	"fmt"
	"math/big"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/jackc/pgx/v5"

	"example.com/checkout/deploy/standin/acquirer"
	"example.com/checkout/deploy/standin/chains"
	"example.com/checkout/deploy/standin/devstack"
	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
)

// LiveSources are the witnesses of a simulated live mode.
type LiveSources struct {
	Double *devstack.LiveDouble
	// Destinations are payout addresses that had nothing before, and that only payouts pay.
	Destinations []string
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
	Sent     []SentTransaction // the treasury's transactions in the chain's blocks, by nonce
	Nonce    uint64            // the treasury's next one
	Treasury map[checkout.PayoutCurrency]*big.Int
	Balances map[string]map[checkout.PayoutCurrency]*big.Int // by LiveSources.Destinations
	Siege
}

// SentTransaction is a transaction of the treasury in a block.
type SentTransaction struct {
	TxHash   string
	Nonce    uint64
	To       string // the destination, or the token
	Reverted bool   // it moved nothing
}

// Transfer is a signed transfer of a live payout.
type Transfer struct {
	ID, PayoutID string
	Nonce        uint64
	Status       storage.TransferStatus
	TxHash       string   // of the version that was mined; "" while nobody knows
	Versions     []string // hashes
}

// LedgerBalance is the sum of one account of the ledger in one asset.
type LedgerBalance struct {
	Account, Asset string
	Amount         string // whole number of the asset's smallest unit
}

// needsLive is the needs of an invariant about the world outside.
func needsLive(f *Facts) string {
	if f.Live == nil {
		return "there is no simulated live mode"
	}
	return ""
}

func readTransfers(ctx context.Context, tx pgx.Tx, f *Facts) error {
	return collect(ctx, tx, &f.Transfers, `
		SELECT t.id, x.payout_id, t.nonce, t.status, coalesce(t.tx_hash, '') AS tx_hash,
			ARRAY(SELECT v.tx_hash FROM transfer_version v WHERE v.transfer_id = t.id ORDER BY v.number) AS versions
		FROM transfer t JOIN treasury_account a ON a.id = t.account_id JOIN transfer_payout x ON x.transfer_id = t.id
		WHERE a.mode = 'live' ORDER BY t.nonce`, pgx.RowToStructByName[Transfer])
}

// readLedger reads the balances. What the card network settled of its receivable stands apart, as
// "acquirer:receivable settled": when it is settled depends on the schedule.
func readLedger(ctx context.Context, tx pgx.Tx, f *Facts) error {
	err := collect(ctx, tx, &f.Ledger, `
		SELECT p.account || CASE WHEN p.account = 'acquirer:receivable' AND e.kind = 'charge_cost' THEN ' settled'
			ELSE '' END AS account, p.asset, sum(p.amount)::text AS amount
		FROM ledger_posting p JOIN ledger_entry e ON e.id = p.entry_id
		WHERE p.mode = 'live' GROUP BY 1, 2 ORDER BY 1, 2`, pgx.RowToStructByName[LedgerBalance])
	if err != nil {
		return err
	}
	return collect(ctx, tx, &f.Unbalanced, `
		SELECT e.kind || ' of ' || e.subject || ' by ' || sum(p.amount) || ' ' || p.asset
		FROM ledger_posting p JOIN ledger_entry e ON e.id = p.entry_id
		GROUP BY e.id, p.asset HAVING sum(p.amount) <> 0 ORDER BY e.id`, pgx.RowTo[string])
}

// readLive asks the double of the card network and the chain. The double's charges join those of the
// sandbox; one that went back to the card is none.
func readLive(ctx context.Context, s Sources, f *Facts) error {
	if s.Live == nil {
		return nil
	}
	f.Live = &Live{Siege: s.Live.Siege, Balances: map[string]map[checkout.PayoutCurrency]*big.Int{}}
	known, err := s.Live.Double.Acquirer.Control().Facts(ctx)
	if err != nil {
		return err
	}
	f.Live.Intents, f.Live.Charges = known.Intents, known.Charges
	f.addLiveCharges()
	if err := f.Live.readChain(ctx, s.Live.Double); err != nil {
		return err
	}
	if f.Live.Treasury, err = balancesOf(ctx, s.Live.Double, s.Live.Double.Treasury()); err != nil {
		return err
	}
	for _, address := range s.Live.Destinations {
		f.Live.Balances[address], err = balancesOf(ctx, s.Live.Double, common.HexToAddress(address))
		if err != nil {
			return err
		}
	}
	s.Progress(fmt.Sprintf("the card network: %d charges; the chain: %d transactions of the treasury",
		len(f.Live.Charges), len(f.Live.Sent)))
	return nil
}

// addLiveCharges adds the double's charges that were not refunded to those of the sandbox.
func (f *Facts) addLiveCharges() {
	sessionOf := map[string]string{}
	for _, t := range f.Transactions {
		sessionOf[t.ID] = t.SessionID
	}
	for _, c := range f.Live.Charges {
		if c.Paid && c.Refunded < c.Amount {
			f.Charges = append(f.Charges, Charge{c.TransactionID, sessionOf[c.TransactionID], checkout.OutcomeSucceeded})
		}
	}
}

func balancesOf(
	ctx context.Context, d *devstack.LiveDouble, account common.Address,
) (map[checkout.PayoutCurrency]*big.Int, error) {
	all := map[checkout.PayoutCurrency]*big.Int{}
	for _, c := range LiveCurrencies {
		units, err := d.BalanceOf(ctx, account, c)
		if err != nil {
			return nil, err
		}
		all[c] = units
	}
	return all, nil
}

// LiveCurrencies are the currencies that the simulated treasury pays.
var LiveCurrencies = []checkout.PayoutCurrency{checkout.ETH, checkout.USDC, checkout.USDT}

// readChain reads the treasury's transactions from every block. After a reorganization a node may
// still show receipts of blocks that are gone, so only those of transactions in blocks are asked.
func (l *Live) readChain(ctx context.Context, d *devstack.LiveDouble) error {
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
			l.Sent = append(l.Sent, SentTransaction{tx.Hash.Hex(), uint64(tx.Nonce), tx.To.Hex(), receipt.Status != 1})
		}
	}
	return nil
}
