package storage

import (
	"context"
	"fmt"
	"math/big"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/treasury"
)

// SessionMoney is how the money of a session moved: its charges, its transfers with their versions,
// and what was booked. It holds no signed bytes.
type SessionMoney struct {
	Charges   []ChargeRecord   // in the order of their attempts; only those with prices of sources
	Transfers []PayoutTransfer // oldest first
	Ledger    []LedgerEntry    // oldest first
}

// ChargeRecord is what was stored about a payment's charge before it moved money.
type ChargeRecord struct {
	TransactionID string
	Reference     string // the acquirer's name of the charge
	RateAt        time.Time
	Sources       []checkout.SourceRate // ordered by name
}

// PayoutTransfer is a transfer of a session's payout.
type PayoutTransfer struct {
	ID        string // tr_…
	ChainID   string // CAIP-2, such as "eip155:1"
	Network   string
	Slot      treasury.Slot
	Status    treasury.TransferState // TransferLive, or final
	Amount    string                 // decimal in the payout's currency: what the destination receives
	Fee       string                 // decimal in the payout's currency: what the merchant pays for the network
	TxHash    string                 // of the version in the block; "" unless confirmed or reverted
	Height    *uint64                // of that block
	Depth     *uint64                // blocks on top of it when the end was proved
	CreatedAt time.Time
	EndedAt   *time.Time
	Versions  []SignedVersion `db:"-"` // oldest first
}

// SignedVersion is a signed transaction of a transfer, without its bytes.
type SignedVersion struct {
	TransferID string
	Number     int // the first is 1
	TxHash     string
	MaxCost    string // decimal in the chain's own currency: the fee at most
	CreatedAt  time.Time
}

// LedgerEntry is an entry of the ledger about a payment or a transfer.
type LedgerEntry struct {
	Kind      string // such as "charge" or "transfer_signed"
	Subject   string // id of the transaction, transfer, refund, risk or payout
	CreatedAt time.Time
	Postings  []LedgerBalance `db:"-"` // ordered by asset, then debits before credits
}

// SessionMoney returns how the money of a session moved, in one round trip. It is empty for an unknown session.
func (s *SessionReader) SessionMoney(ctx context.Context, ref checkout.Ref) (SessionMoney, error) {
	var (
		got      SessionMoney
		versions []SignedVersion
		postings []entryPosting
		batch    pgx.Batch
	)
	pg.Queue(&batch, &got.Charges, `
		SELECT id AS transaction_id, coalesce(acquirer_ref, '') AS reference, rate_at, rate_sources AS sources
		FROM transaction WHERE session_id = $3 AND merchant_id = $1 AND mode = $2 AND rate_sources IS NOT NULL
			AND rate_at IS NOT NULL ORDER BY attempt`, ref.MerchantID, ref.Mode, ref.ID)

	// Of a session: $1 merchant, $2 mode, $3 session.
	const transfers = `transfer_payout x JOIN payout p ON p.id = x.payout_id AND p.session_id = $3
			AND p.merchant_id = $1 AND p.mode = $2 AND x.merchant_id = $1 AND x.mode = $2`
	pg.Queue(&batch, &got.Transfers, `
		SELECT t.id, a.chain_id, a.network, `+slotOf+` AS slot, t.status, x.amount::text AS amount, x.fee::text AS fee,
			coalesce(t.tx_hash, '') AS tx_hash, t.height, t.proved - t.height AS depth, t.created_at, t.ended_at
		FROM `+transfers+` JOIN transfer t ON t.id = x.transfer_id JOIN treasury_account a ON a.id = t.account_id
		ORDER BY t.created_at, t.id`, ref.MerchantID, ref.Mode, ref.ID)
	pg.Queue(&batch, &versions, `
		SELECT v.transfer_id, v.number, v.tx_hash, v.max_cost::text AS max_cost, v.created_at
		FROM `+transfers+` JOIN transfer_version v ON v.transfer_id = x.transfer_id ORDER BY v.transfer_id, v.number`,
		ref.MerchantID, ref.Mode, ref.ID)

	// A transfer may pay several merchants. Entries about all of it are for the merchant that it pays alone.
	pg.Queue(&batch, &postings, `
		SELECT e.id, e.kind, e.subject, e.created_at, l.account, l.asset, l.amount::text AS amount
		FROM ledger_entry e JOIN ledger_posting l ON l.entry_id = e.id
		WHERE e.mode = $2 AND e.subject IN (
				SELECT id FROM transaction WHERE session_id = $3 AND merchant_id = $1 AND mode = $2
				UNION ALL SELECT x.transfer_id FROM `+transfers+`
				UNION ALL SELECT r.id FROM refund r JOIN transaction t ON t.id = r.transaction_id
					WHERE t.session_id = $3 AND t.merchant_id = $1 AND t.mode = $2
				UNION ALL SELECT r.id FROM charge_risk r JOIN transaction t ON t.id = r.transaction_id
					WHERE t.session_id = $3 AND t.merchant_id = $1 AND t.mode = $2
				UNION ALL SELECT id FROM payout WHERE session_id = $3 AND merchant_id = $1 AND mode = $2)
			AND (e.merchant_id = $1 OR e.merchant_id IS NULL AND NOT EXISTS (
				SELECT FROM transfer_payout o WHERE o.transfer_id = e.subject AND o.merchant_id <> $1))
		ORDER BY e.id, l.asset, l.amount < 0, l.account`, ref.MerchantID, ref.Mode, ref.ID)
	if err := s.pool.SendBatch(ctx, &batch).Close(); err != nil {
		return SessionMoney{}, pg.Wrap("money of a session", err)
	}
	for _, v := range versions {
		i := slices.IndexFunc(got.Transfers, func(t PayoutTransfer) bool { return t.ID == v.TransferID })
		if i >= 0 { // else it was signed after the first query
			got.Transfers[i].Versions = append(got.Transfers[i].Versions, v)
		}
	}
	for i, p := range postings {
		if i == 0 || p.ID != postings[i-1].ID {
			got.Ledger = append(got.Ledger, p.LedgerEntry)
		}
		of := &got.Ledger[len(got.Ledger)-1]
		of.Postings = append(of.Postings, p.LedgerBalance)
	}
	return got, nil
}

// entryPosting is a posting with its entry.
type entryPosting struct {
	ID int64
	LedgerEntry
	LedgerBalance
}

// Decimal returns the amount in major units of the asset, and whether it is a credit. The result has no sign.
func (b LedgerBalance) Decimal() (amount string, credit bool, err error) {
	units, ok := new(big.Int).SetString(b.Amount, 10)
	if !ok {
		return "", false, fmt.Errorf("%q is not a whole number", b.Amount)
	}
	return inAsset(b.Asset, new(big.Int).Abs(units)), units.Sign() < 0, nil
}
