package storage

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/treasury"
)

// PayoutFollowUp lists the deliveries to start after the failure of a payout that had been sent. Histories hold it.
type PayoutFollowUp struct {
	checkout.Ref // of the payout

	FollowUp
}

// endings has for each final state how the payouts end, and which booking takes the signature back. Both are
// "" when the transfer paid.
var endings = map[treasury.TransferState]struct {
	failure checkout.PayoutFailure
	booking string
}{
	treasury.TransferStateConfirmed: {"", ""},
	treasury.TransferStateReverted:  {checkout.PayoutInvalidAddress, entryReverted},
	treasury.TransferStateDead:      {checkout.PayoutNetworkError, entryDead},
	treasury.TransferStateCanceled:  {checkout.PayoutNetworkError, entryCanceled},
}

// MissingError: the account has less than the ledger, so a transfer may have paid although the chain shows no payment.
type MissingError struct{ Missing string } // such as "1.500000 USDC"

func (e MissingError) Error() string { return "the account lacks " + e.Missing }

// BurntGas is what the network took for a transfer that paid nothing.
type BurntGas struct {
	TransferID string
	Cost       money.Crypto
}

// EndTransfer writes the final state of a live transfer, with its payouts, their events and the
// ledger, in one transaction. The caller has proved that the state is final at the final block of now. A
// transfer that is not confirmed loses its standing, and its payouts fail, whether they were sent or
// pending. That lets them be paid again, so it needs a second witness: the account has what the ledger says
// that it has when the transfer paid nothing, else EndTransfer returns a MissingError. burnt is what this and other
// transfers that paid nothing cost: it is no sign of a payment, and is booked only when they end.
// ended is false when the transfer had ended before, and when now is older than what the ledger knows.
func (s *Treasury) EndTransfer(
	ctx context.Context, t Transfer, seen treasury.TransferSnapshot, now treasury.AccountSnapshot, burnt ...BurntGas,
) (failed []PayoutFollowUp, ended bool, err error) {
	end, final := endings[seen.State]
	if !final {
		return nil, false, fmt.Errorf("end transfer: %s is not final", seen.State)
	}
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		a, err := lockTreasury(ctx, tx, t.AccountID)
		if err != nil {
			return err
		}
		l := ending{a, t, seen, now, end.failure}
		if may, err := l.mayFail(ctx, tx, burnt); err != nil || !may {
			return err
		}
		generation, err := l.write(ctx, tx)
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
		return err
	})
	if err != nil {
		return nil, false, fmt.Errorf("end transfer %s: %w", t.ID, err)
	}
	return failed, ended, nil
}

// ending is a transfer that ends, with what was seen of it.
type ending struct {
	accountRow
	transfer Transfer
	seen     treasury.TransferSnapshot
	now      treasury.AccountSnapshot
	failure  checkout.PayoutFailure
}

// mayFail reports whether the balances at the final block can be compared with the ledger. It returns a MissingError
// when the account lacks some of the transfer's currency. What other transfers may take is no excuse: those that did
// are booked before, and the next round decides. What transfers have burnt is one: they wait for the same balances.
func (e ending) mayFail(ctx context.Context, tx pgx.Tx, all []BurntGas) (bool, error) {
	if e.failure == "" {
		return true, nil
	}
	known, err := e.knowsFinal(ctx, tx, e.now)
	if err != nil || !known || e.NextBlock <= e.now.FinalHeight { // an outflow of nobody may be missing too
		return false, err
	}
	burnt, err := e.unbooked(ctx, tx, e.now, all, nil)
	if err != nil {
		return false, err
	}
	got, err := e.compare(ctx, tx, e.now.FinalBalances, burnt)
	if err != nil {
		return false, err
	}
	if less := got.short[e.transfer.Versions[0].Currency()]; less.Known() {
		return false, MissingError{sentence(money.PurseOf(less))}
	}
	return true, nil
}

// unbooked returns what transfers have burnt that have not ended: the rest is in the ledger. It leaves out those
// of the payouts in paid.
func (a *accountRow) unbooked(
	ctx context.Context, tx pgx.Tx, now treasury.AccountSnapshot, all []BurntGas, paid []string,
) (money.Purse, error) {
	if len(all) == 0 {
		return nil, nil
	}
	usedUp, err := a.usedUp(ctx, tx, now)
	if err != nil {
		return nil, err
	}
	live, err := pg.Values[string](ctx, tx, `
		SELECT id FROM transfer t WHERE id = ANY ($1) AND NOT EXISTS (
			SELECT FROM transfer_payout x WHERE x.transfer_id = t.id AND x.payout_id = ANY ($2))`, usedUp, paid)
	var burnt []money.Crypto
	for _, b := range all {
		if slices.Contains(live, b.TransferID) {
			burnt = append(burnt, b.Cost)
		}
	}
	return money.PurseOf(burnt...), err
}

// write ends the row and returns its generation. It returns pgx.ErrNoRows when the transfer is not
// live. A transaction that is in no version of the transfer is refused by the subquery.
func (e ending) write(ctx context.Context, tx pgx.Tx) (generation int, err error) {
	if e.seen.State == treasury.TransferStateDead {
		err = tx.QueryRow(ctx, `
			WITH fallen AS (UPDATE transfer_slot SET standing = false WHERE transfer_id = $1)
			UPDATE transfer SET status = 'dead', ended_at = $2, proved = $3
			WHERE id = $1 AND status = 'live' RETURNING generation`, e.transfer.ID, e.Now, e.now.Height).Scan(&generation)
		return generation, err
	}
	err = tx.QueryRow(ctx, `
		UPDATE transfer SET status = $2, ended_at = $3, height = $4, block_hash = $5, cost = $6::numeric, proved = $8,
			tx_hash = (SELECT v.tx_hash FROM transfer_version v WHERE v.transfer_id = $1 AND v.tx_hash = $7)
		WHERE id = $1 AND status = 'live' RETURNING generation`,
		e.transfer.ID, e.seen.State, e.Now, e.seen.Height, e.seen.BlockHash, e.seen.Cost, e.seen.TxHash,
		e.now.Height).Scan(&generation)
	return generation, err
}

func (e ending) book(ctx context.Context, tx pgx.Tx, generation int) error {
	id := e.transfer.ID
	if booking := endings[e.seen.State].booking; booking != "" {
		if err := reverse(ctx, tx, id, entrySigned, 0, booking, generation); err != nil {
			return err
		}
	}
	if e.seen.State == treasury.TransferStateDead {
		return nil // no version of it is in a block, so none cost a fee
	}
	gas := e.seen.Cost
	final := entry{
		Mode: e.Mode, Kind: entryGas, Subject: id, Generation: generation,
		Postings: []posting{inCrypto(ledgerGas, "", gas), inCrypto(ledgerWallet, e.ID, gas.Neg())},
	}
	if e.failure == "" {
		final.Kind = entryFinal
		paid, err := purse(ctx, tx, `
			SELECT amount || ' ' || currency FROM transfer_payout WHERE transfer_id = $1`, id)
		if err != nil {
			return err
		}
		for _, amount := range paid {
			final.Postings = append(final.Postings, inCrypto(ledgerTransit, e.ID, amount),
				inCrypto(ledgerWallet, e.ID, amount.Neg()))
		}
	}
	return final.book(ctx, tx)
}

func (e ending) endPayouts(ctx context.Context, tx pgx.Tx) ([]PayoutFollowUp, error) {
	refs, err := payoutsOf(ctx, tx, e.transfer.ID)
	if err != nil {
		return nil, err
	}
	var failed []PayoutFollowUp
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
		followUp, err := e.failPayout(ctx, tx, ref)
		if err != nil {
			return nil, err
		}
		failed = append(failed, followUp)
	}
	return failed, nil
}

// failPayout takes the standing from the transfer and fails the payout, with its event.
func (e ending) failPayout(ctx context.Context, tx pgx.Tx, ref checkout.Ref) (PayoutFollowUp, error) {
	got := PayoutFollowUp{Ref: ref}
	p, err := lockPayout(ctx, tx, ref)
	if err != nil {
		return got, err
	}
	p.Status, p.Failure, p.FailedAt, p.TxHash = checkout.PayoutFailed, e.failure, &p.Now, e.seen.TxHash
	if e.seen.State == treasury.TransferStateCanceled {
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

// findRefunded finds the payouts of a transfer whose payments are refunded although it may pay them.
func (t Transfer) findRefunded(ctx context.Context, tx pgx.Tx, why string) error {
	payouts, err := payoutsOf(ctx, tx, t.ID)
	for _, ref := range payouts {
		if err == nil {
			_, err = findPaid(ctx, tx, ref, "its transfer may pay "+ref.ID+": "+why)
		}
	}
	return err
}

// liveAgain makes the transfer $1 live, in the next generation.
const liveAgain = `
	UPDATE transfer SET status = 'live', generation = generation + 1, ended_at = NULL, proved = NULL, height = NULL,
		block_hash = NULL, tx_hash = NULL, cost = NULL
	WHERE id = $1`

// ReopenTransfer makes a confirmed transfer live again: a reorganization undid its end. Its payouts keep their status
// and are confirmed no more. A transfer that paid nobody cannot be reopened: its payout may have got another one. Then
// the account is frozen, and a person must look. reopened is false when the transfer is live already.
func (s *Treasury) ReopenTransfer(ctx context.Context, t Transfer) (reopened bool, err error) {
	doing := "reopen transfer " + t.ID
	return inTreasury(ctx, s, doing, t.AccountID, func(tx pgx.Tx, a accountRow) (reopened bool, err error) {
		if t.Status != treasury.TransferStateConfirmed {
			why := fmt.Sprintf("%s was %s, and a reorganization undid it", t.ID, t.Status)
			if err := a.freeze(ctx, tx, why); err != nil {
				return false, err
			}
			return false, t.findRefunded(ctx, tx, why)
		}

		var generation int
		err = tx.QueryRow(ctx, liveAgain+` AND status = 'confirmed' RETURNING generation - 1`, t.ID).Scan(&generation)
		if errors.Is(err, pgx.ErrNoRows) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if err := reverse(ctx, tx, t.ID, entryFinal, generation, entryReopened, generation); err != nil {
			return false, err
		}
		// Other tables name the merchant; here the transfer says whose payouts they are.
		_, err = tx.Exec(ctx, `
			UPDATE payout p SET confirmed_at = NULL FROM transfer_payout x
			WHERE x.transfer_id = $1 AND p.id = x.payout_id AND p.merchant_id = x.merchant_id AND p.mode = x.mode`, t.ID)
		return true, err
	})
}
