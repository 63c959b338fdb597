package storage

import (
	"context"
	"fmt"
	"time"

	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/treasury"
)

// SandboxCharge is a charge in the sandbox's card network. The sandbox tables stand for systems outside
// the service, so they have no merchant.
type SandboxCharge struct {
	TransactionID string
	SessionID     string
	Behavior      string
	Method        checkout.PaymentMethod
	Amount        money.Amount
	Currency      money.Currency
	Outcome       checkout.PaymentOutcome
	Failure       checkout.FailureCode
	ReturnURL     string
	Calls         int        // number of calls for this charge
	SettleAt      *time.Time // when a processing charge is decided and the first callback is due
	Callbacks     int        // callbacks that remain
}

const sandboxChargeColumns = `
	transaction_id, session_id, behavior, method, amount, currency, outcome, failure,
	return_url, calls, settle_at, callbacks`

// CreateSandboxCharge stores a charge. A repeat for the same transaction counts the call and returns the first charge.
func (s *Sandbox) CreateSandboxCharge(ctx context.Context, c SandboxCharge) (SandboxCharge, error) {
	charge, err := pg.One[SandboxCharge](ctx, s.pool, `
		INSERT INTO sandbox_charge (transaction_id, session_id, behavior, method, amount, currency,
			outcome, failure, return_url, settle_at, callbacks)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
		ON CONFLICT (transaction_id) DO UPDATE SET calls = sandbox_charge.calls + 1
		RETURNING `+sandboxChargeColumns,
		c.TransactionID, c.SessionID, c.Behavior, c.Method, c.Amount, c.Currency, c.Outcome,
		c.Failure, c.ReturnURL, c.SettleAt, c.Callbacks)
	return charge, pg.Wrap("create sandbox charge", err)
}

// SandboxCharge returns the charge of a transaction, or checkout.ErrNotFound.
func (s *Sandbox) SandboxCharge(ctx context.Context, transactionID string) (SandboxCharge, error) {
	charge, err := pg.One[SandboxCharge](ctx, s.pool, `
		SELECT `+sandboxChargeColumns+` FROM sandbox_charge WHERE transaction_id = $1`, transactionID)
	return charge, pg.Wrap("sandbox charge", err)
}

// DecideSandboxCharge sets the outcome of an undecided charge and returns the charge. A decided
// charge keeps its outcome. It returns checkout.ErrNotFound.
func (s *Sandbox) DecideSandboxCharge(
	ctx context.Context, transactionID string, outcome checkout.PaymentOutcome,
	failure checkout.FailureCode,
) (SandboxCharge, error) {
	_, err := s.pool.Exec(ctx, `
		UPDATE sandbox_charge SET outcome = $2, failure = $3
		WHERE transaction_id = $1 AND outcome IN ('action_required', 'processing')`, transactionID, outcome, failure)
	if err != nil {
		return SandboxCharge{}, pg.Wrap("decide sandbox charge", err)
	}
	return s.SandboxCharge(ctx, transactionID)
}

// DueSandboxCallbacks returns up to 100 charges whose next callback is due, earliest first.
func (s *Sandbox) DueSandboxCallbacks(ctx context.Context) ([]SandboxCharge, error) {
	due, err := pg.Collect[SandboxCharge](ctx, s.pool, `
		SELECT `+sandboxChargeColumns+` FROM sandbox_charge
		WHERE callbacks > 0 AND settle_at <= clock_timestamp() ORDER BY settle_at LIMIT 100`)
	return due, pg.Wrap("sandbox callbacks", err)
}

// CountSandboxCallback records that one callback was made.
func (s *Sandbox) CountSandboxCallback(ctx context.Context, transactionID string) error {
	return pg.Exec(ctx, s.pool, "count sandbox callback", `
		UPDATE sandbox_charge SET callbacks = callbacks - 1
		WHERE transaction_id = $1 AND callbacks > 0`, transactionID)
}

// PostponeSandboxCallback makes the next callback due after delay.
func (s *Sandbox) PostponeSandboxCallback(ctx context.Context, transactionID string, delay time.Duration) error {
	return pg.Exec(ctx, s.pool, "postpone sandbox callback", `
		UPDATE sandbox_charge SET settle_at = clock_timestamp() + $2::interval
		WHERE transaction_id = $1`, transactionID, delay)
}

// RecordSandboxTransfer stores a transfer of p that is not sent in the same statement, or the refusal of the sandbox's
// chain to sign one. The first record of a generation stays: when another process was faster, it returns that process's
// record. It returns checkout.ErrNotFound, checkout.ErrConflict when p was retried meanwhile, and
// checkout.ErrMerchantSuspended when nothing was recorded because of it.
func (s *Sandbox) RecordSandboxTransfer(
	ctx context.Context, p checkout.Payout, t treasury.SandboxTransfer,
) ([]byte, checkout.PayoutFailure, error) {
	recorded, err := s.recordSandboxTransfer(ctx, p, t, "")
	if err != nil || recorded {
		return t.Signed, t.Failed, err
	}
	now, err := payoutToSend(ctx, s.pool, p.Ref)
	if err == nil && now.Generation != p.Generation {
		return nil, "", fmt.Errorf("record sandbox transfer: %w: the payout was retried", checkout.ErrConflict)
	}
	if err == nil && now.Deducted != p.Deducted && now.Recorded == nil && now.Failure == "" {
		return nil, "", fmt.Errorf("record sandbox transfer: %w: the payout was reduced", checkout.ErrConflict)
	}
	if err == nil && now.Suspended && now.Recorded == nil && now.Failure == "" {
		err = checkout.ErrMerchantSuspended
	}
	return now.Recorded, now.Failure, err
}

// recordSandboxTransfer records a transfer, with more to do in the same statement. It returns false when there is a
// record.
func (s *Sandbox) recordSandboxTransfer(
	ctx context.Context, p checkout.Payout, t treasury.SandboxTransfer, more string,
) (recorded bool, err error) {
	err = s.pool.QueryRow(ctx, `
		WITH recorded AS (
			UPDATE payout p SET amount = $4, fee = $5, tx_hash = $6, signed_transfer = $7, failure = $8
			WHERE id = $1 AND merchant_id = $2 AND mode = $3 AND status = 'pending'
				AND signed_transfer IS NULL AND failure = '' AND generation = $9 AND deducted = $10
				AND NOT `+payoutsSuspended+`
			RETURNING id
		)`+more+` SELECT count(*) = 1 FROM recorded`,
		p.ID, p.MerchantID, p.Mode, t.Amount, t.Fee, t.TxHash, t.Signed, t.Failed, p.Generation, p.Deducted).Scan(&recorded)
	return recorded, pg.Wrap("record sandbox transfer", err)
}

// SendSandboxTransfer records a transfer of p and puts it on the sandbox's chain, in one statement. It returns false
// when p has a record, or is not pending any more; then nothing has changed.
func (s *Sandbox) SendSandboxTransfer(
	ctx context.Context, p checkout.Payout, t treasury.SandboxTransfer,
) (bool, error) {
	return s.recordSandboxTransfer(ctx, p, t, `, sent AS (
			INSERT INTO sandbox_transfer (tx_hash, payout_id) SELECT $6, id FROM recorded`+sandboxRepeat+`
		)`)
}

const sandboxRepeat = `
			ON CONFLICT (tx_hash) DO UPDATE SET broadcasts = sandbox_transfer.broadcasts + 1`

// BroadcastSandboxTransfer puts a transfer on the sandbox's chain. A repeat only raises a counter.
func (s *Sandbox) BroadcastSandboxTransfer(ctx context.Context, txHash, payoutID string) error {
	return pg.Exec(ctx, s.pool, "broadcast sandbox transfer", `
		INSERT INTO sandbox_transfer (tx_hash, payout_id) VALUES ($1, $2)`+sandboxRepeat,
		txHash, payoutID)
}
