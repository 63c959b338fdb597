package storage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/books"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/treasury"
)

// A payout on hold is tried again after a tenth of the time that it has waited, within these limits, and
// not before the end of its delay.
const (
	shortestHold = time.Minute
	longestHold  = time.Hour
)

// HoldPayout notes why a pending payout is not sent at present, and when it is tried again. When it
// has been on hold for patience, the outcome is insufficient_liquidity: then nothing can be signed
// for it any more. When a transfer of it was signed meanwhile, the outcome is the zero value. It
// returns checkout.ErrNotFound, and checkout.ErrConflict when p was retried meanwhile.
func (s *Payouts) HoldPayout(
	ctx context.Context, p checkout.Payout, why checkout.PayoutHold, patience time.Duration,
) (treasury.TransferOutcome, error) {
	return pg.InTx(ctx, s.pool, "hold payout", func(tx pgx.Tx) (got treasury.TransferOutcome, err error) {
		now, err := lockGeneration(ctx, tx, p)
		if err == nil {
			got, err = now.hold(ctx, tx, why, patience)
		}
		return got, err
	})
}

// HoldAwayPayout notes that a pending payout waits because nobody could be asked about it, and when it
// is tried again. It decides nothing, however long that lasts, and whether or not a transfer is signed.
// It returns the recorded failure, if any; neither a hold nor a failure means that the payout was sent. The outcome has
// the payout's generation. It returns checkout.ErrNotFound.
func (s *Payouts) HoldAwayPayout(ctx context.Context, ref checkout.Ref) (treasury.TransferOutcome, error) {
	return pg.InTx(ctx, s.pool, "hold payout", func(tx pgx.Tx) (got treasury.TransferOutcome, err error) {
		p, err := lockPayout(ctx, tx, ref)
		if err != nil {
			return got, err
		}
		got.Generation = p.Generation
		if p.Status != checkout.PayoutPending || p.Failure != "" {
			got.Failure = p.Failure
			return got, nil
		}
		got.Held = checkout.HoldAway
		return got, p.wait(ctx, tx, got.Held)
	})
}

// RefusePayout notes that the payout can never be sent. It returns the failure that counts: the
// first one, or "" when a transfer was signed meanwhile. The payout stays pending until
// FinishPayout, and nothing can be signed for it. found tells operators why; a finding is opened with
// the refusal. It returns checkout.ErrNotFound, and checkout.ErrConflict when p was retried meanwhile.
func (s *Payouts) RefusePayout(
	ctx context.Context, p checkout.Payout, why checkout.PayoutFailure, found ...books.Finding,
) (treasury.TransferOutcome, error) {
	return pg.InTx(ctx, s.pool, "refuse payout", func(tx pgx.Tx) (got treasury.TransferOutcome, err error) {
		now, err := lockGeneration(ctx, tx, p)
		if err != nil {
			return got, err
		}
		if now.closed() {
			got.Failure = now.Failure
			return got, nil
		}
		got.Failure = why
		for _, f := range found {
			if _, err := openFinding(ctx, tx, f); err != nil {
				return got, err
			}
		}
		return got, now.refuse(ctx, tx, why)
	})
}

// lockGeneration is lockPayout for what was found out about p: about its destination, for example. It
// returns checkout.ErrConflict when p was retried meanwhile.
func lockGeneration(ctx context.Context, tx pgx.Tx, p checkout.Payout) (lockedPayout, error) {
	now, err := lockPayout(ctx, tx, p.Ref)
	if err == nil && now.Generation != p.Generation {
		err = fmt.Errorf("%w: the payout was retried", checkout.ErrConflict)
	}
	return now, err
}

// closed reports whether nothing can be signed for the payout: it is decided, a failure is
// recorded, or a transfer stands.
func (p *lockedPayout) closed() bool {
	return p.Standing || p.Status != checkout.PayoutPending || p.Failure != ""
}

func (p *lockedPayout) refuse(ctx context.Context, tx pgx.Tx, why checkout.PayoutFailure) error {
	return p.set(ctx, tx, `failure = $4, hold = '', held_at = NULL, next_action_at = NULL`, why)
}

// hold writes a hold, or gives the payout up when it has waited for patience. A payout of a merchant whose payouts are
// suspended is never given up.
func (p *lockedPayout) hold(
	ctx context.Context, tx pgx.Tx, why checkout.PayoutHold, patience time.Duration,
) (treasury.TransferOutcome, error) {
	if p.closed() {
		return treasury.TransferOutcome{Failure: p.Failure}, nil
	}
	if p.Suspended && !why.Patient() {
		why = checkout.HoldSuspended
	}
	if p.Hold.Patient() != why.Patient() {
		p.HeldAt = nil // the time of a patient hold does not count
	}
	if p.waited() >= patience && !why.Patient() {
		const failure = checkout.PayoutInsufficientLiquidity
		return treasury.TransferOutcome{Failure: failure}, p.refuse(ctx, tx, failure)
	}
	return treasury.TransferOutcome{Held: why}, p.wait(ctx, tx, why)
}

// waited returns how long the payout has been on hold.
func (p *lockedPayout) waited() time.Duration {
	if p.HeldAt == nil {
		return 0
	}
	return p.Now.Sub(*p.HeldAt)
}

func (p *lockedPayout) wait(ctx context.Context, tx pgx.Tx, why checkout.PayoutHold) error {
	since, next := p.Now.Add(-p.waited()), p.Now.Add(min(longestHold, max(shortestHold, p.waited()/10)))
	if next.Before(p.NotBefore) {
		next = p.NotBefore
	}
	return p.set(ctx, tx, `hold = $4, held_at = $5, next_action_at = $6`, why, since, next)
}

// HeldPayouts are the payouts that wait for one reason.
type HeldPayouts struct {
	Hold  checkout.PayoutHold
	Count int
	Since time.Time // of the oldest
	Next  time.Time // the next try of any of them
}

// HeldPayouts returns the payouts on hold of a mode by reason, for an operator: of all merchants.
func (s *PayoutReader) HeldPayouts(ctx context.Context, mode checkout.Mode) ([]HeldPayouts, error) {
	got, err := pg.Collect[HeldPayouts](ctx, s.pool, `
		SELECT hold, count(*), min(held_at) AS since, min(next_action_at) AS next FROM payout
		WHERE mode = $1 AND status = 'pending' AND hold <> '' GROUP BY hold ORDER BY hold`, mode)
	return got, pg.Wrap("held payouts", err)
}

// pendingAgain makes a failed payout pending in the next generation at $4. The row keeps how the earlier one ended.
const pendingAgain = `status = 'pending', generation = generation + 1, failure = '', sent_at = NULL, failed_at = NULL,
	retried = retried || jsonb_build_object('destination', destination, 'failure', failure, 'sent_at', sent_at,
		'failed_at', failed_at, 'retried_at', $4::timestamptz)`

// RetryPayout makes a failed payout pending again, in the next generation: with the merchant's payout address as it is
// now, and with the same source amount. Payout.RateHolds says with which rate. It starts no run.
//
// It returns checkout.ErrNotFound, checkout.ErrPayoutNotFailed, checkout.ErrTransferStands when a
// transfer of an earlier generation may still pay it, checkout.ErrPaymentRefunded when the customer got all of it or an
// operator's refund has not failed, checkout.ErrNothingLeft when it paid a debt of the merchant, and a
// *checkout.AddressRevertedError. by works as in CreateEndpoint.
func (s *Payouts) RetryPayout(
	ctx context.Context, ref checkout.Ref, by ...merchant.AuditEntry,
) (checkout.Payout, error) {
	err := pg.RunInTx(ctx, s.pool, "retry payout", func(tx pgx.Tx) error {
		if err := lockMerchants(ctx, tx, ref.MerchantID); err != nil {
			return err
		}
		p, err := lockPayout(ctx, tx, ref)
		if err != nil {
			return err
		}
		if p.Status != checkout.PayoutFailed {
			return checkout.ErrPayoutNotFailed
		}
		if p.Standing {
			return checkout.ErrTransferStands
		}
		if err := p.requireNotRefunded(ctx, tx); err != nil {
			return err
		}
		if p.Net() == 0 && p.Failure == checkout.PayoutRecovered {
			return checkout.ErrNothingLeft
		}
		if p.Net() == 0 {
			return checkout.ErrPaymentRefunded
		}
		if err := lockAnnounced(ctx, tx, p.Owner, p.Currency); err != nil {
			return err
		}
		if err := p.requireOtherAddress(ctx, tx); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, `
			UPDATE payout p SET `+pendingAgain+`,
				network = coalesce(a.network, p.network), destination = coalesce(a.address, ''),
				amount = '', fee = '', tx_hash = '', signed_transfer = NULL,
				next_action_at = $4, size_released_at = NULL, risk_released_at = NULL, confirmed_at = NULL
			FROM (SELECT) nothing LEFT JOIN current_payout_address a ON a.merchant_id = $2 AND a.mode = $3 AND a.currency = $5
			WHERE p.id = $1 AND p.merchant_id = $2 AND p.mode = $3 AND p.status = 'failed'`,
			p.ID, p.MerchantID, p.Mode, p.Now, p.Currency)
		if err != nil {
			return err
		}
		if tag.RowsAffected() != 1 {
			return errors.New("the payout changed under its lock")
		}
		// What the payout left of the balance when it failed may be spent.
		if err := noteBalance(ctx, tx, p.Owner); err != nil {
			return err
		}
		// The next generation has the merchant's address of now, which is looked at anew, also when an
		// operator had released the payout.
		if err := closeFindings(ctx, tx, p.Mode, []string{p.ID}, books.FindingPayoutSanctioned); err != nil {
			return err
		}
		return pg.Audit(ctx, tx, by...)
	})
	if err != nil {
		return checkout.Payout{}, err
	}
	return s.Payout(ctx, ref)
}

// requireNotRefunded returns checkout.ErrPaymentRefunded unless every refund by an operator has failed.
func (p *lockedPayout) requireNotRefunded(ctx context.Context, tx pgx.Tx) error {
	refunded, err := pg.Value[bool](ctx, tx, `
		SELECT EXISTS (SELECT FROM refund r WHERE r.transaction_id = $1 AND r.mode = $2
			AND r.reason <> 'merchant' AND `+refundStands+`)`,
		p.TransactionID, p.Mode)
	if err == nil && refunded {
		err = checkout.ErrPaymentRefunded
	}
	return err
}

// requireOtherAddress returns a *checkout.AddressRevertedError when a transfer of the payout to the merchant's
// present address was reverted. Upper and lower case are the same address.
func (p *lockedPayout) requireOtherAddress(ctx context.Context, tx pgx.Tx) error {
	var reverted checkout.AddressRevertedError
	err := tx.QueryRow(ctx, `
		SELECT a.address, (SELECT next_at FROM payout_address n WHERE n.merchant_id = a.merchant_id AND n.mode = a.mode
			AND n.currency = a.currency AND n.next_at > $5)
		FROM current_payout_address a WHERE a.merchant_id = $2 AND a.mode = $3 AND a.currency = $4 AND EXISTS (
			SELECT FROM transfer_payout x JOIN transfer t ON t.id = x.transfer_id AND t.status = 'reverted'
			WHERE x.payout_id = $1 AND lower(x.destination) = lower(a.address))`,
		p.ID, p.MerchantID, p.Mode, p.Currency, p.Now).Scan(&reverted.Address, &reverted.ChangesAt)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	return cmp.Or[error](err, &reverted)
}
