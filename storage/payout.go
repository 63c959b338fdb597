package storage

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"time"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/webhook"
)

// payoutColumns and payoutJoin read a checkout.Payout. payoutChain is the chain that it is paid on.
const (
	payoutChain   = `coalesce(t.chain_ref, p.chain_ref)`
	payoutColumns = `
		p.id, coalesce(p.session_id, '') AS session_id, coalesce(p.transaction_id, '') AS transaction_id,
		p.merchant_id, p.mode, p.status,
		p.amount || ' ' || p.currency AS amount, p.currency, p.network, p.destination,
		p.source_amount, p.source_currency, p.deducted, coalesce((SELECT jsonb_agg(jsonb_build_object('type', d.type,
			'source', d.source, 'amount', d.amount, 'owed', d.owed) ORDER BY d.created_at) FROM payout_deduction d
			WHERE d.payout_id = p.id AND p.deducted > 0), '[]') AS deductions, p.exchange_rate,
		p.fee || ' ' || p.currency AS fee, p.tx_hash, p.failure,
		coalesce(t.exchange_rate, p.exchange_rate) AS locked_rate,
		CASE WHEN p.transaction_id IS NULL THEN p.created_at + interval '24 hours' ELSE t.rate_until END AS rate_until,
		EXISTS (SELECT FROM charge_risk r WHERE r.transaction_id = t.id) AS disputed,
		coalesce(s.metadata, '{}') AS metadata, p.generation, p.retried,
		 p.hold, p.next_action_at, p.created_at, p.sent_at, p.confirmed_at,
		p.failed_at`
	payoutJoin = `
		FROM payout p LEFT JOIN checkout_session s
			ON s.id = p.session_id AND s.merchant_id = p.merchant_id AND s.mode = p.mode
		LEFT JOIN transaction t ON t.id = p.transaction_id AND t.merchant_id = p.merchant_id AND t.mode = p.mode`
)

// Payout returns one payout. It returns checkout.ErrNotFound.
func (s *PayoutReader) Payout(ctx context.Context, ref checkout.Ref) (checkout.Payout, error) {
	return s.payout(ctx, `p.id = $1 AND p.merchant_id = $2 AND p.mode = $3`, ref.ID, ref.MerchantID, ref.Mode)
}

// AnyPayout is Payout for an operator who knows only the id. It returns checkout.ErrNotFound.
func (s *PayoutReader) AnyPayout(ctx context.Context, id string) (checkout.Payout, error) {
	return s.payout(ctx, `p.id = $1`, id)
}

func (s *PayoutReader) payout(ctx context.Context, where string, args ...any) (checkout.Payout, error) {
	p, err := pg.One[checkout.Payout](ctx, s.pool, `SELECT `+payoutColumns+payoutJoin+` WHERE `+where, args...)
	return p, pg.Wrap("payout", err)
}

// PayoutToSend is a payout with what its chain needs to send it.
type PayoutToSend struct {
	checkout.Payout

	Chain     string // of its payment
	Recorded  []byte // the signed bytes of its SandboxTransfer; nil before that is recorded, and always on a real chain
	Behavior  string // of the payment's SandboxCharge, "" when there is none
	Suspended bool   // the merchant's payouts are suspended
	MayOwe    bool   // the merchant may owe something: see RecoverDebt
}

// PayoutToSend returns a payout to be sent. It returns checkout.ErrNotFound.
func (s *PayoutReader) PayoutToSend(ctx context.Context, ref checkout.Ref) (PayoutToSend, error) {
	return payoutToSend(ctx, s.pool, ref)
}

func payoutToSend(ctx context.Context, from pg.Querier, ref checkout.Ref) (PayoutToSend, error) {
	got, err := pg.One[PayoutToSend](ctx, from, `
		SELECT `+payoutColumns+`, p.signed_transfer AS recorded, `+payoutChain+` AS chain,
			coalesce((SELECT behavior FROM sandbox_charge c WHERE c.transaction_id = p.transaction_id), '') AS behavior,
			`+payoutsSuspended+` AS suspended, (SELECT p.mode = ANY (m.owes) FROM merchant m WHERE m.id = p.merchant_id)
				AS may_owe`+
		payoutJoin+`
		WHERE p.id = $1 AND p.merchant_id = $2 AND p.mode = $3`, ref.ID, ref.MerchantID, ref.Mode)
	return got, pg.Wrap("payout to send", err)
}

// PayoutsToBatch returns the oldest payouts of every merchant that wait for a transfer of the account, by id, and how
// long the first of them has waited. One that no node answered has waited since it was made. It is due at once, because
// a round calls this only after a node has answered. Only the treasury may call it.
func (s *PayoutReader) PayoutsToBatch(
	ctx context.Context, a TreasuryAccount, limit int,
) (all []checkout.Payout, waited time.Duration, err error) {
	type row struct {
		checkout.Payout
		Waited time.Duration
	}
	got, err := pg.Collect[row](ctx, s.pool, `
		SELECT `+payoutColumns+`, clock_timestamp() - CASE p.hold WHEN 'away' THEN p.created_at
			ELSE coalesce(p.next_action_at, p.created_at) END AS waited`+payoutJoin+`
		WHERE p.mode = $1 AND `+payoutChain+` = $2 AND p.network = $3 AND p.status = 'pending' AND p.failure = ''
			AND (p.hold = 'away' OR coalesce(p.next_action_at, p.created_at) <= clock_timestamp())
			AND NOT EXISTS (SELECT FROM transfer_payout x WHERE x.payout_id = p.id AND x.standing)
			AND NOT (p.hold = 'suspended' AND `+payoutsSuspended+`)
		ORDER BY p.id LIMIT $4`, a.Mode, a.ChainID, a.Network, limit)
	for _, r := range got {
		all, waited = append(all, r.Payout), max(waited, r.Waited)
	}
	return all, waited, pg.Wrap("payouts to batch", err)
}

// PayoutFilter selects payouts. An empty field selects all.
type PayoutFilter struct {
	Status    checkout.PayoutStatus
	Currency  money.PayoutCurrency
	SessionID string
}

// list begins a query over the payouts p that the filter selects.
func (f PayoutFilter) list(owner checkout.Owner) *pg.List {
	q := pg.NewList(owner, "p")
	if f.Status != "" && f.Status != checkout.PayoutSent {
		q.SQL += " AND p.status <> 'sent'" // says that the index payout_unusual has them
	}
	q.Equal("p.status", string(f.Status))
	q.Equal("p.currency", string(f.Currency))
	q.Equal("p.session_id", f.SessionID)
	return q
}

// Payouts lists payouts, newest first.
func (s *PayoutReader) Payouts(
	ctx context.Context, owner checkout.Owner, f PayoutFilter, p pg.Page,
) ([]checkout.Payout, error) {
	q := f.list(owner)
	q.Page(checkout.PrefixPayout, "p", p)
	got, err := pg.Collect[checkout.Payout](ctx, s.pool, `SELECT `+payoutColumns+payoutJoin+` `+q.SQL, q.Args...)
	return got, pg.Wrap("payouts", err)
}

// FinishPayout decides a generation of the payout, in one transaction with its event and deliveries; generation 0 is
// the present one. An empty failure means that the payout was sent. A repeat changes nothing and returns the same
// follow-up, even after a retry of the payout. It returns checkout.ErrNotFound, checkout.ErrTransferStands for a
// failure although a signed transfer may still pay the payout, and checkout.ErrConflict when a payout on a real chain
// was sent although nothing was signed.
func (s *Payouts) FinishPayout(
	ctx context.Context, ref checkout.Ref, generation int, failure checkout.PayoutFailure,
) (FollowUp, error) {
	got, err := s.decidePayoutUnlocked(ctx, ref, generation, failure)
	if !errors.Is(err, errOvertaken) {
		return got, pg.Wrap("finish payout", err)
	}
	return pg.InTx(ctx, s.pool, "finish payout", func(tx pgx.Tx) (got FollowUp, err error) {
		p, err := lockPayout(ctx, tx, ref)
		if err != nil {
			return got, err
		}
		if generation != 0 && generation != p.Generation { // it was retried, so it had failed
			got.EventType = webhook.PayoutFailed
			got.Deliveries, err = published(ctx, tx, p.Owner, p.ID, got.EventType, generation)
			return got, err
		}

		if p.Status != checkout.PayoutPending {
			got.EventType = payoutEventType(p.Status)
			got.Deliveries, err = published(ctx, tx, p.Owner, p.ID, got.EventType, p.Generation)
			return got, err
		}

		if err := p.mayEnd(failure); err != nil {
			return got, err
		}
		return p.decidePayout(ctx, tx, failure)
	})
}

// decidePayoutUnlocked reads a payout of the sandbox and decides it in one statement, which does nothing unless the
// payout is as it was read. It returns errOvertaken then, and for a payout that is not to be decided. Transfers of a
// real chain are rows that only a lock of the payout keeps as they are.
func (s *Payouts) decidePayoutUnlocked(
	ctx context.Context, ref checkout.Ref, generation int, failure checkout.PayoutFailure,
) (FollowUp, error) {
	p, err := readPayout(ctx, s.pool, ref)
	if err != nil {
		return FollowUp{}, err
	}
	if p.OnChain || p.Standing || p.Status != checkout.PayoutPending || generation != 0 && generation != p.Generation {
		return FollowUp{}, errOvertaken
	}
	return p.decidePayout(ctx, s.pool, failure)
}

func payoutEventType(s checkout.PayoutStatus) webhook.EventType {
	if s == checkout.PayoutSent {
		return webhook.PayoutSent
	}
	return webhook.PayoutFailed
}

// lockedPayout is a payout with the columns of its session that its event needs.
type lockedPayout struct {
	checkout.Payout
	Now             time.Time
	HeldAt          *time.Time // since when it is on hold
	NotBefore       time.Time  `db:"-"` // nothing is signed earlier
	Standing        bool       // a signed transfer of it may still pay it
	Recorded        bool       // the sandbox has a transfer of it, which pays or has failed
	DelayHours      *int       // from its payment to its signature; nil: the installation's
	OnChain         bool       // it is paid on a real chain
	SizeReleased    bool       // an operator lets it pass whatever its size
	RiskReleased    bool       // an operator accepted the risks that were known then
	Suspended       bool       // the merchant's payouts are suspended
	WebhookURL      *string
	SigningEndpoint *string
	Version         string // changes with every change of the row; "" when the row is locked
}

// lockPayout locks the payout. A second statement reads it after the lock: a single statement that
// waits would read the transfers as they were before the wait.
func lockPayout(ctx context.Context, tx pgx.Tx, ref checkout.Ref) (lockedPayout, error) {
	_, err := tx.Exec(ctx, `
		SELECT FROM payout WHERE id = $1 AND merchant_id = $2 AND mode = $3 FOR NO KEY UPDATE`,
		ref.ID, ref.MerchantID, ref.Mode)
	if err != nil {
		return lockedPayout{}, err
	}
	p, err := readPayout(ctx, tx, ref)
	p.Version = ""
	return p, err
}

// set changes columns of the locked payout. The arguments begin with $4.
func (p *lockedPayout) set(ctx context.Context, tx pgx.Tx, columns string, args ...any) error {
	_, err := tx.Exec(ctx, `UPDATE payout SET `+columns+` WHERE id = $1 AND merchant_id = $2 AND mode = $3`,
		append([]any{p.ID, p.MerchantID, p.Mode}, args...)...)
	return err
}

func readPayout(ctx context.Context, from pg.Querier, ref checkout.Ref) (lockedPayout, error) {
	return pg.One[lockedPayout](ctx, from, `
		SELECT `+payoutColumns+`, date_trunc('milliseconds', clock_timestamp()) AS now,
			p.held_at, EXISTS (SELECT FROM transfer_payout x WHERE x.payout_id = p.id AND x.standing)
				AS standing, p.signed_transfer IS NOT NULL AS recorded, `+payoutChain+` <> 'sandbox' AS on_chain,
			p.size_released_at IS NOT NULL AS size_released, p.risk_released_at IS NOT NULL AS risk_released,
			`+payoutsSuspended+` AS suspended,
			(SELECT m.payout_delay_hours FROM merchant m WHERE m.id = p.merchant_id) AS delay_hours,
			s.webhook_url, s.signing_endpoint_id AS signing_endpoint, p.xmin::text AS version`+payoutJoin+`
		WHERE p.id = $1 AND p.merchant_id = $2 AND p.mode = $3`, ref.ID, ref.MerchantID, ref.Mode)
}

func (p *lockedPayout) event(typ webhook.EventType) publication {
	return publication{
		Ref: checkout.Ref{Owner: p.Owner}, Type: typ, SubjectID: p.ID,
		SessionID: p.SessionID, Data: p.Payout, Generation: p.Generation,
		At: p.Now, WebhookURL: p.WebhookURL, SigningEndpoint: p.SigningEndpoint,
	}
}

// mayEnd returns an error when the payout must not end like this.
func (p *lockedPayout) mayEnd(failure checkout.PayoutFailure) error {
	if failure != "" && p.Standing {
		return checkout.ErrTransferStands
	}
	if failure == "" && p.OnChain && !p.Standing {
		return fmt.Errorf("%w: nothing was signed for the payout", checkout.ErrConflict)
	}
	return nil
}

// decidePayout ends the payout, and stores its event and the deliveries, in one statement. It returns errOvertaken when
// the row is another one than p; then nothing has changed.
func (p *lockedPayout) decidePayout(
	ctx context.Context, to pg.Querier, failure checkout.PayoutFailure,
) (FollowUp, error) {
	if failure == "" {
		p.Status, p.SentAt = checkout.PayoutSent, &p.Now
	} else {
		p.Status, p.FailedAt, p.Failure, p.TxHash = checkout.PayoutFailed, &p.Now, failure, ""
	}
	p.Hold, p.NextActionAt = "", nil
	got := FollowUp{EventType: payoutEventType(p.Status)}
	decision := decisionSQL{sql: `decided AS (
			UPDATE payout SET status = @status, failure = @failure, tx_hash = @tx_hash, sent_at = @sent_at,
				failed_at = @failed_at, hold = '', held_at = NULL, next_action_at = NULL
			WHERE id = @subject AND merchant_id = @merchant AND mode = @mode AND status = 'pending'
				AND @version IN ('', xmin::text)
			RETURNING id
		)`, args: pgx.NamedArgs{
		"status": p.Status, "failure": p.Failure, "tx_hash": p.TxHash, "sent_at": p.SentAt, "failed_at": p.FailedAt,
		"version": p.Version,
	}}
	if p.Status == checkout.PayoutSent && !p.OnChain {
		p.sandboxEntry().with(&decision, `@charge = '' OR
			EXISTS (SELECT FROM ledger_entry WHERE kind = 'charge' AND subject = @charge AND generation = 1)`)
		decision.args["charge"] = p.TransactionID
	}
	var err error
	got.Deliveries, err = publishWith(ctx, to, p.event(got.EventType), decision)
	return got, err
}

// sandboxEntry is the entry of a payout that the sandbox's chain paid. Transfers on real chains are booked when they
// are signed.
func (p *lockedPayout) sandboxEntry() entry {
	paid := big.NewInt(int64(p.Net()))
	return entry{
		Mode: p.Mode, Kind: entryPayout, Subject: p.ID, Generation: p.Generation, MerchantID: p.MerchantID,
		Postings: []posting{
			{ledgerPayable, p.MerchantID, string(p.SourceCurrency), paid},
			{ledgerSandbox, "", string(p.SourceCurrency), new(big.Int).Neg(paid)},
		},
	}
}
