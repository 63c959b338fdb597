package storage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/treasury"
)

// TransferLive is the status of a signed transfer whose end is not known. Every other status is a final state.
const TransferLive treasury.TransferState = "live"

// Transfer is one slot of a treasury account, with the signed versions.
type Transfer struct {
	ID        string // tr_…
	AccountID string
	Slot      treasury.Slot
	Status    treasury.TransferState     // TransferLive, or final
	Base      uint64                     // height of the chain when it was signed
	Unchanged time.Duration              // time since its newest version was signed
	Canceling bool                       // an operator wants it to pay nobody
	Versions  []treasury.TransferVersion `db:"-"` // oldest first
}

// Newest returns the version to send.
func (t Transfer) Newest() treasury.TransferVersion { return t.Versions[len(t.Versions)-1] }

// Has reports whether a version of the transfer is the transaction of the hash.
func (t Transfer) Has(txHash string) bool {
	return slices.ContainsFunc(t.Versions, func(v treasury.TransferVersion) bool { return v.TxHash == txHash })
}

const (
	// slotOf is the slot of a transfer t.
	slotOf = `coalesce((SELECT array_agg(s.unit ORDER BY s.position) FROM transfer_slot s WHERE s.transfer_id = t.id),
		ARRAY[t.nonce::text])`
)

// storedVersion is a signed version of a transfer.
type storedVersion struct {
	TransferID string
	treasury.TransferVersion
}

// versions returns signed versions v of transfers t, with what they pay.
func versions(ctx context.Context, q pg.Querier, where string, args ...any) ([]storedVersion, error) {
	all, err := pg.Collect[storedVersion](ctx, q, `
		SELECT v.transfer_id, `+slotOf+` AS slot, v.fee || ' ' || v.currency AS fee,
			v.max_cost || CASE v.currency`+feeCurrencies()+` END AS max_cost, v.terms, v.cancels, v.tx_hash, v.raw
		FROM transfer_version v JOIN transfer t ON t.id = v.transfer_id `+where, args...)
	if err != nil {
		return nil, err
	}
	ids := make([]string, len(all))
	for i, v := range all {
		ids[i] = v.TransferID
	}
	type output struct {
		TransferID string
		treasury.TransferOutput
	}
	outputs, err := pg.Collect[output](ctx, q, `
		SELECT x.transfer_id, x.payout_id, x.destination,
			x.amount || ' ' || x.currency AS amount, x.fee || ' ' || x.currency AS fee
		FROM transfer_payout x WHERE x.transfer_id = ANY ($1) ORDER BY x.payout_id`, ids)
	pays := map[string][]treasury.TransferOutput{}
	for _, o := range outputs {
		pays[o.TransferID] = append(pays[o.TransferID], o.TransferOutput)
	}
	for i := range all {
		if v := &all[i]; v.Cancels {
			v.Fee = money.Crypto{}
		} else {
			v.Outputs = pays[v.TransferID]
		}
	}
	return all, err
}

// feeCurrencies are the branches of a CASE that turns a payout currency into a space and the currency of its network's
// fees.
func feeCurrencies() (sql string) {
	for _, c := range money.PayoutCurrencies {
		sql += fmt.Sprintf(" WHEN '%s' THEN ' %s'", c, money.NetworkCurrency(c.Network()))
	}
	return sql
}

// StandingTransfer returns the newest signed version of the payout's transfer, and false when
// nothing is signed that may still pay it. Only the treasury may call it: the bytes move money.
func (s *Treasury) StandingTransfer(
	ctx context.Context, ref checkout.Ref,
) (v treasury.TransferVersion, stands bool, err error) {
	newest, err := pg.InTx(ctx, s.pool, "standing transfer", func(tx pgx.Tx) ([]storedVersion, error) {
		return versions(ctx, tx, `
			JOIN transfer_payout x ON x.transfer_id = t.id AND x.standing
			WHERE x.payout_id = $1 AND x.merchant_id = $2 AND x.mode = $3 ORDER BY v.number DESC LIMIT 1`,
			ref.ID, ref.MerchantID, ref.Mode)
	})
	if err != nil || len(newest) == 0 {
		return v, false, err
	}
	return newest[0].TransferVersion, true, nil
}

// LiveTransfers returns up to limit transfers of an account whose end is not final, in their order.
func (s *Treasury) LiveTransfers(ctx context.Context, accountID string, limit int) ([]Transfer, error) {
	return s.transfers(ctx, `WHERE t.account_id = $1 AND t.status = 'live' ORDER BY t.nonce LIMIT $2`, accountID, limit)
}

// Burnt returns what the network took for the transfers of a payout that were reverted, in the chain's own currency.
func (s *Treasury) Burnt(ctx context.Context, p checkout.Payout) (cost money.Crypto, err error) {
	err = s.pool.QueryRow(ctx, `
		SELECT coalesce(sum(t.cost), 0) || ' ' || $4::text FROM transfer_payout x JOIN transfer t ON t.id = x.transfer_id
		WHERE x.payout_id = $1 AND x.merchant_id = $2 AND x.mode = $3 AND t.status = 'reverted'`,
		p.ID, p.MerchantID, p.Mode, money.NetworkCurrency(p.Network)).Scan(&cost)
	return cost, pg.Wrap("burnt gas", err)
}

// bySlot returns the ids of the transfers t whose slot is used up, or is not, at the last final block.
func bySlot(
	ctx context.Context, from pg.Querier, now treasury.AccountSnapshot, used bool, where string, args ...any,
) (ids []string, err error) {
	type transfer struct {
		ID   string
		Slot treasury.Slot
	}
	all, err := pg.Collect[transfer](ctx, from, `SELECT t.id, `+slotOf+` AS slot FROM transfer t `+where, args...)
	for _, t := range all {
		if now.Used(t.Slot) == used {
			ids = append(ids, t.ID)
		}
	}
	return ids, err
}

// UndoneTransfers returns those of the newest limit transfers of an account that ended although their slot is free at
// the last final block, in their order: a reorganization undid their end, or the node lags.
func (s *Treasury) UndoneTransfers(
	ctx context.Context, accountID string, now treasury.AccountSnapshot, limit int,
) ([]Transfer, error) {
	undone, err := bySlot(ctx, s.pool, now, false, `
		WHERE t.account_id = $1 AND t.status <> 'live' ORDER BY t.nonce DESC LIMIT $2`, accountID, limit)
	if err != nil || len(undone) == 0 {
		return nil, pg.Wrap("undone transfers", err)
	}
	return s.transfers(ctx, `WHERE t.id = ANY ($1) ORDER BY t.nonce`, undone)
}

// usedUp returns the live transfers of the account whose slot is used up at the last final block.
func (a *accountRow) usedUp(ctx context.Context, tx pgx.Tx, now treasury.AccountSnapshot) (ids []string, err error) {
	return bySlot(ctx, tx, now, true, `WHERE t.account_id = $1 AND t.status = 'live'`, a.ID)
}

// TakenUnits returns the units of the account's live transfers, unless their slots are numbers.
func (s *Treasury) TakenUnits(ctx context.Context, accountID string) (units treasury.Slot, err error) {
	units, err = pg.Values[string](ctx, s.pool, `
		SELECT s.unit FROM transfer_slot s JOIN transfer t ON t.id = s.transfer_id
		WHERE t.account_id = $1 AND t.status = 'live'`, accountID)
	return units, pg.Wrap("taken units", err)
}

// TransfersWith returns the standing transfers of an account that have a unit of the slot, in their order.
func (s *Treasury) TransfersWith(ctx context.Context, accountID string, slot treasury.Slot) ([]Transfer, error) {
	if n, ordered := slot.Number(); ordered {
		return s.transfers(ctx, `WHERE t.account_id = $1 AND t.nonce = $2`, accountID, n)
	}
	return s.transfers(ctx, `
		WHERE t.id IN (SELECT transfer_id FROM transfer_slot WHERE account_id = $1 AND unit = ANY ($2) AND standing)
		ORDER BY t.nonce`, accountID, slot)
}

func (s *Treasury) transfers(ctx context.Context, where string, args ...any) ([]Transfer, error) {
	got, err := pg.Collect[Transfer](ctx, s.pool, `
		SELECT t.id, t.account_id, `+slotOf+` AS slot, t.status, t.base, clock_timestamp() - (
			SELECT max(v.created_at) FROM transfer_version v WHERE v.transfer_id = t.id) AS unchanged,
			t.cancel_at IS NOT NULL AS canceling
		FROM transfer t `+where, args...)
	if err != nil || len(got) == 0 {
		return nil, pg.Wrap("transfers", err)
	}
	byID, ids := map[string]*Transfer{}, make([]string, len(got))
	for i := range got {
		byID[got[i].ID], ids[i] = &got[i], got[i].ID
	}
	all, err := versions(ctx, s.pool, `WHERE v.transfer_id = ANY ($1) ORDER BY v.transfer_id, v.number`, ids)
	for _, v := range all {
		t := byID[v.TransferID]
		t.Versions = append(t.Versions, v.TransferVersion)
	}
	return got, pg.Wrap("transfers", err)
}

// ErrFrozen: the account signs nothing at present.
var ErrFrozen = errors.New("the treasury account is frozen")

// AddVersion signs the next version of a live transfer and stores it, under the lock of the account. added is false
// when the transfer has ended, or has a newer version than last: another process was faster. A version pays the same as
// the one before, unless it cancels the transfer, as an operator asked. It returns ErrFrozen.
func (s *Treasury) AddVersion(
	ctx context.Context, t Transfer, plan treasury.TransferPlan, sign SignVersion,
) (v treasury.TransferVersion, added bool, err error) {
	v, err = inTreasury(ctx, s, "add version", t.AccountID, func(
		tx pgx.Tx, a accountRow,
	) (none treasury.TransferVersion, err error) {
		if a.FrozenAt != nil {
			return none, ErrFrozen
		}
		current, err := pg.Value[bool](ctx, tx, `
			SELECT t.status = 'live' AND (SELECT count(*) FROM transfer_version v WHERE v.transfer_id = t.id) = $2
			FROM transfer t WHERE t.id = $1`, t.ID, len(t.Versions))
		if err != nil || !current {
			return none, err
		}
		if err := t.mayBecome(plan); err != nil {
			return none, err
		}
		v, err := sign.signPlan(ctx, plan)
		if err != nil {
			return none, err
		}
		batch := &pgx.Batch{}
		queueVersion(batch, t.ID, len(t.Versions)+1, v, a.Now)
		return v, tx.SendBatch(ctx, batch).Close()
	})
	return v, v.TxHash != "", err
}

// mayBecome returns an error when the plan must not be the transfer's next version.
func (t Transfer) mayBecome(plan treasury.TransferPlan) error {
	last := t.Newest()
	if !slices.Equal(plan.Slot, t.Slot) {
		return errors.New("the replacement has another slot")
	}
	if plan.Cancels && t.Canceling {
		return nil
	}
	if plan.Cancels != last.Cancels || !slices.EqualFunc(plan.Outputs, last.Outputs, treasury.TransferOutput.Is) {
		return errors.New("the replacement pays something else")
	}
	return nil
}

// CancelTransfer notes that a live transfer shall pay nobody: the next round of the treasury signs a
// version that cancels it. The network may still take an earlier version. It returns the payouts of the
// transfer. A repeat changes nothing. It returns checkout.ErrNotFound, and checkout.ErrConflict when the
// transfer has ended. by is the entry in the audit log of each merchant, without the merchant.
func (s *Treasury) CancelTransfer(
	ctx context.Context, transferID string, by merchant.AuditEntry,
) (payouts []checkout.Ref, err error) {
	return pg.InTx(ctx, s.pool, "cancel transfer", func(tx pgx.Tx) (payouts []checkout.Ref, err error) {
		a, err := lockTreasuryOf(ctx, tx, transferID)
		if err != nil {
			return payouts, err
		}
		var fresh, live bool
		row := tx.QueryRow(ctx, `
			WITH asked AS (
				UPDATE transfer SET cancel_at = $2 WHERE id = $1 AND status = 'live' AND cancel_at IS NULL RETURNING id)
			SELECT EXISTS (SELECT FROM asked), status = 'live' FROM transfer WHERE id = $1`, transferID, a.Now)
		err = row.Scan(&fresh, &live)
		if err != nil {
			return payouts, err
		}
		if !live {
			return payouts, fmt.Errorf("%w: the transfer has ended", checkout.ErrConflict)
		}
		if payouts, err = payoutsOf(ctx, tx, transferID); err != nil || !fresh {
			return payouts, err
		}
		for _, ref := range payouts {
			by.ID, by.MerchantID, by.Mode = checkout.NewID(checkout.PrefixAuditEntry), ref.MerchantID, &ref.Mode
			if err := pg.Audit(ctx, tx, by); err != nil {
				return payouts, err
			}
		}
		return payouts, nil
	})
}

// payoutsOf names the payouts of a transfer.
func payoutsOf(ctx context.Context, tx pgx.Tx, transferID string) ([]checkout.Ref, error) {
	return pg.Collect[checkout.Ref](ctx, tx, `
		SELECT payout_id AS id, merchant_id, mode FROM transfer_payout WHERE transfer_id = $1 ORDER BY 1`, transferID)
}
