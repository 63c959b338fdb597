package storage

import (
	"context"
	"time"

	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
)

// SandboxCharge is a charge in the sandbox's card network. The sandbox tables stand for systems outside
// the service, so they have no merchant.
type SandboxCharge struct {
	TransactionID string
	SessionID     string
	Behavior      string
	Method        checkout.PaymentMethod
	Amount        checkout.Amount
	Currency      checkout.Currency
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

// CreateSandboxCharge stores a charge. A repeat for the same transaction counts the call and
// returns the first charge.
func (s *Store) CreateSandboxCharge(ctx context.Context, c SandboxCharge) (SandboxCharge, error) {
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
func (s *Store) SandboxCharge(ctx context.Context, transactionID string) (SandboxCharge, error) {
	charge, err := pg.One[SandboxCharge](ctx, s.pool, `
		SELECT `+sandboxChargeColumns+` FROM sandbox_charge WHERE transaction_id = $1`, transactionID)
	return charge, pg.Wrap("sandbox charge", err)
}

// DecideSandboxCharge sets the outcome of an undecided charge and returns the charge. A decided
// charge keeps its outcome. It returns checkout.ErrNotFound.
func (s *Store) DecideSandboxCharge(
	ctx context.Context, transactionID string, outcome checkout.PaymentOutcome,
	failure checkout.FailureCode,
) (SandboxCharge, error) {
	_, err := s.pool.Exec(ctx, `
		UPDATE sandbox_charge SET outcome = $2, failure = $3
		WHERE transaction_id = $1 AND outcome IN ('action_required', 'processing')`,
		transactionID, outcome, failure)
	if err != nil {
		return SandboxCharge{}, pg.Wrap("decide sandbox charge", err)
	}
	return s.SandboxCharge(ctx, transactionID)
}

// DueSandboxCallbacks returns up to 100 charges whose next callback is due, earliest first.
func (s *Store) DueSandboxCallbacks(ctx context.Context) ([]SandboxCharge, error) {
	due, err := pg.Collect[SandboxCharge](ctx, s.pool, `
		SELECT `+sandboxChargeColumns+` FROM sandbox_charge
		WHERE callbacks > 0 AND settle_at <= clock_timestamp() ORDER BY settle_at LIMIT 100`)
	return due, pg.Wrap("sandbox callbacks", err)
}

// CountSandboxCallback records that one callback was made.
func (s *Store) CountSandboxCallback(ctx context.Context, transactionID string) error {
	_, err := s.pool.Exec(ctx, `
		UPDATE sandbox_charge SET callbacks = callbacks - 1
		WHERE transaction_id = $1 AND callbacks > 0`, transactionID)
	return pg.Wrap("count sandbox callback", err)
}

// PostponeSandboxCallback makes the next callback due after delay.
func (s *Store) PostponeSandboxCallback(
	ctx context.Context, transactionID string, delay time.Duration,
) error {
	_, err := s.pool.Exec(ctx, `
		UPDATE sandbox_charge SET settle_at = clock_timestamp() + $2::interval
		WHERE transaction_id = $1`, transactionID, delay)
	return pg.Wrap("postpone sandbox callback", err)
}

// SendSandboxTransfer records a transfer of p and puts it on the sandbox's chain, in one statement. It returns false
// when p has a record, or is not pending any more; then nothing has changed.
func (s *Store) SendSandboxTransfer(ctx context.Context, p checkout.Payout, t checkout.Transfer) (bool, error) {
	return s.recordTransfer(ctx, p, t, `, sent AS (
			INSERT INTO sandbox_transfer (tx_hash, payout_id) SELECT $6, id FROM recorded`+sandboxRepeat+`
		)`)
}

const sandboxRepeat = `
			ON CONFLICT (tx_hash) DO UPDATE SET broadcasts = sandbox_transfer.broadcasts + 1`

// BroadcastSandboxTransfer puts a transfer on the sandbox's chain. A repeat only raises a counter.
func (s *Store) BroadcastSandboxTransfer(ctx context.Context, txHash, payoutID string) error {
	_, err := s.pool.Exec(ctx, `
		INSERT INTO sandbox_transfer (tx_hash, payout_id) VALUES ($1, $2)`+sandboxRepeat,
		txHash, payoutID)
	return pg.Wrap("broadcast sandbox transfer", err)
}
