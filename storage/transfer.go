package storage

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
)

// TransferStatus is the state of a transfer. All but live are final on the chain.
type TransferStatus string

// States of a transfer.
const (
	TransferLive      TransferStatus = "live"      // signed; nobody knows yet how it ends
	TransferConfirmed TransferStatus = "confirmed" // paid
	TransferReverted  TransferStatus = "reverted"  // in a block, but the destination received nothing
	TransferDead      TransferStatus = "dead"      // another transaction took its nonce
	TransferCanceled  TransferStatus = "canceled"  // a version that pays nobody took its nonce
)

// Transfer is one nonce of a treasury account, with the signed versions.
type Transfer struct {
	ID        string // tr_…
	AccountID string
	Nonce     uint64
	Status    TransferStatus
	Base      uint64                     // height of the chain when it was signed
	Unchanged time.Duration              // time since its newest version was signed
	Canceling bool                       // an operator wants it to pay nobody
	Versions  []checkout.TransferVersion `db:"-"` // oldest first
}

// Newest returns the version to send.
func (t Transfer) Newest() checkout.TransferVersion { return t.Versions[len(t.Versions)-1] }

var selectVersion = `
	SELECT v.destination, v.amount || ' ' || v.currency AS amount, v.fee || ' ' || v.currency AS fee,
		v.max_cost || CASE v.currency` + feeCurrencies() + ` END AS max_cost, v.terms, v.cancels,
		t.nonce, v.tx_hash, v.raw FROM transfer_version v JOIN transfer t ON t.id = v.transfer_id `

// feeCurrencies are the branches of a CASE that turns a payout currency into a space and the currency of its network's
// fees.
func feeCurrencies() (sql string) {
	for _, c := range checkout.PayoutCurrencies {
		sql += fmt.Sprintf(" WHEN '%s' THEN ' %s'", c, checkout.NetworkCurrency(c.Network()))
	}
	return sql
}

// standingVersion returns the newest version of the transfer that stands for a payout.
func standingVersion(ctx context.Context, tx pgx.Tx, payoutID string) (checkout.TransferVersion, error) {
	rows, err := tx.Query(ctx, selectVersion+`
		JOIN transfer_payout x ON x.transfer_id = t.id AND x.standing
		WHERE x.payout_id = $1 ORDER BY v.number DESC LIMIT 1`, payoutID)
	if err != nil {
		return checkout.TransferVersion{}, err
	}
	return pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[checkout.TransferVersion])
}

// StandingTransfer returns the newest signed version of the payout's transfer, and false when
// nothing is signed that may still pay it. Only the treasury may call it: the bytes move money.
func (s *Store) StandingTransfer(
	ctx context.Context, ref checkout.Ref,
) (v checkout.TransferVersion, stands bool, err error) {
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		err := tx.QueryRow(ctx, `
			SELECT EXISTS (SELECT FROM transfer_payout
				WHERE payout_id = $1 AND merchant_id = $2 AND mode = $3 AND standing)`,
			ref.ID, ref.MerchantID, ref.Mode).Scan(&stands)
		if err == nil && stands {
			v, err = standingVersion(ctx, tx, ref.ID)
		}
		return err
	})
	if err != nil {
		return v, false, pg.Wrap("standing transfer", err)
	}
	return v, stands, nil
}

// LiveTransfers returns up to limit transfers of an account whose end is not final, by nonce.
func (s *Store) LiveTransfers(ctx context.Context, accountID string, limit int) ([]Transfer, error) {
	return s.transfers(ctx, `WHERE t.account_id = $1 AND t.status = 'live' ORDER BY t.nonce LIMIT $2`, accountID, limit)
}

// Burnt returns what the network took for the transfers of a payout that were reverted, in the chain's own currency.
func (s *Store) Burnt(ctx context.Context, p checkout.Payout) (cost checkout.Crypto, err error) {
	err = s.pool.QueryRow(ctx, `
		SELECT coalesce(sum(t.cost), 0) || ' ' || $4::text FROM transfer_payout x JOIN transfer t ON t.id = x.transfer_id
		WHERE x.payout_id = $1 AND x.merchant_id = $2 AND x.mode = $3 AND t.status = 'reverted'`,
		p.ID, p.MerchantID, p.Mode, checkout.NetworkCurrency(p.Network)).Scan(&cost)
	return cost, pg.Wrap("burnt gas", err)
}

// UndoneTransfers returns up to limit transfers of an account that ended although the chain's final
// nonce is not above theirs, by nonce: a reorganization undid their end, or the node lags.
func (s *Store) UndoneTransfers(
	ctx context.Context, accountID string, finalNonce uint64, limit int,
) ([]Transfer, error) {
	return s.transfers(ctx, `
		WHERE t.account_id = $1 AND t.nonce >= $2 AND t.status <> 'live' ORDER BY t.nonce LIMIT $3`,
		accountID, finalNonce, limit)
}

// TransfersOf returns the transfer of an account that has the nonce, or none.
func (s *Store) TransfersOf(ctx context.Context, accountID string, nonce uint64) ([]Transfer, error) {
	return s.transfers(ctx, `WHERE t.account_id = $1 AND t.nonce = $2`, accountID, nonce)
}

func (s *Store) transfers(ctx context.Context, where string, args ...any) ([]Transfer, error) {
	got, err := pg.Collect[Transfer](ctx, s.pool, `
		SELECT t.id, t.account_id, t.nonce, t.status, t.base, clock_timestamp() - (
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
	type row struct {
		TransferID string
		checkout.TransferVersion
	}
	versions, err := pg.Collect[row](ctx, s.pool, `SELECT transfer_id, x.* FROM (`+selectVersion+`) x
		JOIN transfer_version USING (tx_hash) WHERE transfer_id = ANY ($1) ORDER BY transfer_id, number`, ids)
	for _, v := range versions {
		t := byID[v.TransferID]
		t.Versions = append(t.Versions, v.TransferVersion)
	}
	return got, pg.Wrap("transfers", err)
}

// ErrFrozen: the account signs nothing at present.
var ErrFrozen = errors.New("the treasury account is frozen")

// AddVersion signs the next version of a live transfer and stores it, under the lock of the
// account. added is false when the transfer has ended, or has a newer version
// than last: another process was faster. A version pays the same as the one before, unless it cancels
// the transfer, as an operator asked. It returns ErrFrozen.
func (s *Store) AddVersion(
	ctx context.Context, t Transfer, plan checkout.TransferPlan, sign Sign,
) (v checkout.TransferVersion, added bool, err error) {
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		a, err := lockTreasury(ctx, tx, t.AccountID)
		if err != nil {
			return err
		}
		if a.Frozen {
			return ErrFrozen
		}
		var current bool
		err = tx.QueryRow(ctx, `
			SELECT t.status = 'live' AND (SELECT count(*) FROM transfer_version v WHERE v.transfer_id = t.id) = $2
			FROM transfer t WHERE t.id = $1`, t.ID, len(t.Versions)).Scan(&current)
		if err != nil || !current {
			return err
		}
		if err := t.mayBecome(plan); err != nil {
			return err
		}
		if v, err = sign.within(ctx, plan, t.Nonce); err != nil {
			return err
		}
		batch := &pgx.Batch{}
		queueVersion(batch, t.ID, len(t.Versions)+1, v, a.Now)
		added = true
		return tx.SendBatch(ctx, batch).Close()
	})
	if err != nil {
		return checkout.TransferVersion{}, false, pg.Wrap("add version", err)
	}
	return v, added, nil
}

// mayBecome returns an error when the plan must not be the transfer's next version.
func (t Transfer) mayBecome(plan checkout.TransferPlan) error {
	last := t.Newest()
	if plan.Cancels && t.Canceling {
		return nil
	}
	if plan.Cancels != last.Cancels || !plan.Amount.Is(last.Amount) || plan.Destination != last.Destination {
		return errors.New("the replacement changes the amount, the destination or the currency")
	}
	return nil
}

// CancelTransfer notes that a live transfer shall pay nobody: the next round of the treasury signs a
// version that cancels it. The network may still take an earlier version. It returns the payouts of the
// transfer. A repeat changes nothing. It returns checkout.ErrNotFound, and checkout.ErrConflict when the
// transfer has ended. by is the entry in the audit log of each merchant, without the merchant.
func (s *Store) CancelTransfer(
	ctx context.Context, transferID string, by checkout.AuditEntry,
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
