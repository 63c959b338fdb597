package storage

import (
	"context"
	"errors"
	"fmt"
	"math/big"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/workflows/checkout"
)

// PayoutSettlement lists the deliveries to start after the failure of a payout that had been sent.
type PayoutSettlement struct {
	checkout.Ref // of the payout

	Settlement
}

// endings says for each final state of a sighting how the transfer and its payouts end.
var endings = map[checkout.SightingState]struct {
	status  TransferStatus
	failure checkout.PayoutFailure // "" when it was paid
}{
	checkout.SightingConfirmed: {TransferConfirmed, ""},
	checkout.SightingReverted:  {TransferReverted, checkout.PayoutInvalidAddress},
	checkout.SightingDead:      {TransferDead, checkout.PayoutNetworkError},
	checkout.SightingCanceled:  {TransferCanceled, checkout.PayoutNetworkError},
}

// EndTransfer writes the final state of a live transfer, with its payouts, their events and the
// ledger, in one transaction. The caller has proved that the state is final, when the chain had the
// height at. A transfer that is not confirmed loses its standing, and its payouts fail, whether they were
// sent or pending. A dead one freezes the account, because its nonce was used by nobody we know.
// ended is false when the transfer had ended before.
func (s *Store) EndTransfer(
	ctx context.Context, t Transfer, seen checkout.Sighting, at uint64,
) (failed []PayoutSettlement, ended bool, err error) {
	end, final := endings[seen.State]
	if !final {
		return nil, false, fmt.Errorf("end transfer: %s is not final", seen.State)
	}
	err = s.inTx(ctx, func(tx pgx.Tx) error {
		a, err := lockTreasury(ctx, tx, t.AccountID)
		if err != nil {
			return err
		}
		l := ending{a, t, seen, at, end.failure}
		generation, err := l.write(ctx, tx, end.status)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		ended = true
		if err := l.book(ctx, tx, generation); err != nil {
			return err
		}
		failed, err = l.endPayouts(ctx, tx)
		if err == nil && end.status == TransferDead {
			err = a.freeze(ctx, tx, fmt.Sprintf("nonce %d of %s was used by another transaction", t.Nonce, t.ID))
		}
		return err
	})
	if err != nil {
		return nil, false, fmt.Errorf("end transfer %s: %w", t.ID, err)
	}
	return failed, ended, nil
}

// ending is a transfer that ends, with what was seen of it.
type ending struct {
	treasury
	transfer Transfer
	seen     checkout.Sighting
	at       uint64
	failure  checkout.PayoutFailure
}

// write ends the row and returns its generation. It returns pgx.ErrNoRows when the transfer is not
// live. A transaction that is in no version of the transfer is refused by the subquery.
func (e ending) write(ctx context.Context, tx pgx.Tx, status TransferStatus) (generation int, err error) {
	if status == TransferDead {
		err = tx.QueryRow(ctx, `
			UPDATE transfer SET status = 'dead', ended_at = $2, proved = $3
			WHERE id = $1 AND status = 'live' RETURNING generation`,
			e.transfer.ID, e.Now, e.at).Scan(&generation)
		return generation, err
	}
	err = tx.QueryRow(ctx, `
		UPDATE transfer SET status = $2, ended_at = $3, height = $4, block_hash = $5, cost = $6::numeric, proved = $8,
			tx_hash = (SELECT v.tx_hash FROM transfer_version v WHERE v.transfer_id = $1 AND v.tx_hash = $7)
		WHERE id = $1 AND status = 'live' RETURNING generation`,
		e.transfer.ID, status, e.Now, e.seen.Height, e.seen.BlockHash, e.seen.Cost, e.seen.TxHash,
		e.at).Scan(&generation)
	return generation, err
}

// book books how the transfer ended.
func (e ending) book(ctx context.Context, tx pgx.Tx, generation int) error {
	id := e.transfer.ID
	switch e.seen.State {
	case checkout.SightingDead:
		return reverse(ctx, tx, id, entrySigned, 1, entryDead, generation)
	case checkout.SightingReverted:
		if err := reverse(ctx, tx, id, entrySigned, 1, entryReverted, generation); err != nil {
			return err
		}
	case checkout.SightingCanceled:
		if err := reverse(ctx, tx, id, entrySigned, 1, entryCanceled, generation); err != nil {
			return err
		}
	}

	gas, err := checkout.NetworkCurrency(e.Network).Units(e.seen.Cost)
	if err != nil {
		return err
	}
	own := string(checkout.NetworkCurrency(e.Network))
	final := entry{
		Mode: e.Mode, Kind: entryGas, Subject: id, Generation: generation,
		Postings: []posting{{accountGas, "", own, gas}, {accountWallet, e.ID, own, new(big.Int).Neg(gas)}},
	}
	if e.failure == "" {
		final.Kind = entryFinal
		paid, err := totals(ctx, tx, `
			SELECT currency, amount::text FROM transfer_payout WHERE transfer_id = $1`, id)
		if err != nil {
			return err
		}
		for currency, units := range paid {
			final.Postings = append(final.Postings, posting{accountTransit, e.ID, string(currency), units},
				posting{accountWallet, e.ID, string(currency), new(big.Int).Neg(units)})
		}
	}
	return final.book(ctx, tx)
}

// endPayouts marks the payouts confirmed or failed.
func (e ending) endPayouts(ctx context.Context, tx pgx.Tx) ([]PayoutSettlement, error) {
	refs, err := payoutsOf(ctx, tx, e.transfer.ID)
	if err != nil {
		return nil, err
	}

	var failed []PayoutSettlement
	for _, ref := range refs {
		if e.failure == "" {
			_, err = tx.Exec(ctx, `
				UPDATE payout SET confirmed_at = $4, tx_hash = $5 WHERE id = $1 AND merchant_id = $2 AND mode = $3`,
				ref.ID, ref.MerchantID, ref.Mode, e.Now, e.seen.TxHash)
			if err != nil {
				return nil, err
			}
			continue
		}
		settled, err := e.failPayout(ctx, tx, ref)
		if err != nil {
			return nil, err
		}
		failed = append(failed, settled)
	}
	return failed, nil
}

// failPayout takes the standing from the transfer and fails the payout, with its event.
func (e ending) failPayout(ctx context.Context, tx pgx.Tx, ref checkout.Ref) (PayoutSettlement, error) {
	got := PayoutSettlement{Ref: ref}
	p, err := lockPayout(ctx, tx, ref)
	if err != nil {
		return got, err
	}
	p.Status, p.Failure, p.FailedAt, p.TxHash = checkout.PayoutFailed, e.failure, &p.Now, e.seen.TxHash
	if e.seen.State == checkout.SightingCanceled {
		p.TxHash = "" // that transaction is none of the payout's
	}
	_, err = tx.Exec(ctx, `
		WITH fallen AS (UPDATE transfer_payout SET standing = false WHERE transfer_id = $7 AND payout_id = $1)
		UPDATE payout SET status = $4, failure = $5, failed_at = $6, tx_hash = $8,
			hold = '', held_at = NULL, next_action_at = NULL
		WHERE id = $1 AND merchant_id = $2 AND mode = $3`,
		p.ID, p.MerchantID, p.Mode, p.Status, p.Failure, p.FailedAt, e.transfer.ID, p.TxHash)
	if err != nil {
		return got, err
	}
	got.EventType = payoutEventType(p.Status)
	got.Deliveries, err = publish(ctx, tx, p.event(got.EventType))
	return got, err
}

// ReopenTransfer makes a confirmed transfer live again: a reorganization undid its end. Its payouts
// keep their status and are confirmed no more. A transfer that paid nobody cannot be reopened: its
// payout may have got another one. Then the account is frozen, and a person must look. reopened is
// false when the transfer is live already.
func (s *Store) ReopenTransfer(ctx context.Context, t Transfer) (reopened bool, err error) {
	err = s.inTx(ctx, func(tx pgx.Tx) error {
		a, err := lockTreasury(ctx, tx, t.AccountID)
		if err != nil {
			return err
		}
		if t.Status != TransferConfirmed {
			return a.freeze(ctx, tx, fmt.Sprintf("%s was %s, and a reorganization undid it", t.ID, t.Status))
		}

		var generation int
		err = tx.QueryRow(ctx, `
			UPDATE transfer SET status = 'live', generation = generation + 1, ended_at = NULL, proved = NULL, height = NULL,
				block_hash = NULL, tx_hash = NULL, cost = NULL
			WHERE id = $1 AND status = 'confirmed' RETURNING generation - 1`, t.ID).Scan(&generation)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		reopened = true
		if err := reverse(ctx, tx, t.ID, entryFinal, generation, entryReopened, generation); err != nil {
			return err
		}
		// Other tables name the merchant; here the transfer says whose payouts they are.
		_, err = tx.Exec(ctx, `
			UPDATE payout p SET confirmed_at = NULL FROM transfer_payout x
			WHERE x.transfer_id = $1 AND p.id = x.payout_id AND p.merchant_id = x.merchant_id AND p.mode = x.mode`, t.ID)
		return err
	})
	if err != nil {
		return false, fmt.Errorf("reopen transfer %s: %w", t.ID, err)
	}
	return reopened, nil
}
