package storage

import (
	"context"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
)

const (
	// takesEvidence is true while the bank takes evidence about a risk r.
	takesEvidence = `coalesce(
		r.status IN ('inquiry', 'open') AND NOT r.responded AND r.respond_by > clock_timestamp(), false)`
	// evidenceStands is true for evidence e about a risk r that nothing can replace. A dispute that follows an inquiry
	// wants evidence anew, and evidence that the card network did not take is no evidence.
	evidenceStands = `coalesce(e.failure = '' AND (e.content IS NOT NULL OR NOT e.inquiry OR r.status <> 'open'), false)`
)

// EvidenceOrder is evidence of a merchant about a dispute.
type EvidenceOrder struct {
	RequestID   string // dpe_…, the idempotency key
	Dispute     checkout.Ref
	Evidence    checkout.Evidence
	SubmittedBy string // as in merchant.AuditEntry.Actor
}

// SubmitEvidence stores evidence that passes Check. The caller starts the dispute's run, which sends it; Reconcile does
// so if the caller fails. A repeat changes nothing and returns the dispute as it is now. It returns
// checkout.ErrNotFound, checkout.ErrDisputeNotOpen and checkout.ErrEvidenceSubmitted. by works as in CreateEndpoint.
func (s *Disputes) SubmitEvidence(
	ctx context.Context, o EvidenceOrder, by ...merchant.AuditEntry,
) (checkout.Dispute, error) {
	return pg.InTx(ctx, s.pool, "submit evidence", func(tx pgx.Tx) (d checkout.Dispute, err error) {
		request, err := lockEvidence(ctx, tx, o.Dispute)
		if err != nil {
			return d, err
		}
		d, err = readDispute(ctx, tx, o.Dispute)
		if err != nil || request == o.RequestID {
			return d, err
		}
		if err := d.MayRespond(); err != nil {
			return d, err
		}
		_, err = tx.Exec(ctx, `
			INSERT INTO dispute_evidence (risk_id, merchant_id, mode, request_id, inquiry, content, submitted_by, submitted_at)
			SELECT id, merchant_id, mode, $4, status = 'inquiry', $5, $6, date_trunc('milliseconds', clock_timestamp())
			FROM charge_risk WHERE dispute_id = $1 AND merchant_id = $2 AND mode = $3
			ON CONFLICT (risk_id) DO UPDATE SET request_id = excluded.request_id, inquiry = excluded.inquiry,
				content = excluded.content, submitted_by = excluded.submitted_by, submitted_at = excluded.submitted_at,
				sent_at = NULL, failure = ''`,
			o.Dispute.ID, o.Dispute.MerchantID, o.Dispute.Mode, o.RequestID, o.Evidence, o.SubmittedBy)
		if err != nil {
			return d, err
		}
		if err := pg.Audit(ctx, tx, by...); err != nil {
			return d, err
		}
		return readDispute(ctx, tx, o.Dispute)
	})
}

// lockEvidence locks a dispute, so that evidence comes one after the other, and returns the request of the present
// evidence, "" without one. The caller's next statement sees what was written meanwhile.
func lockEvidence(ctx context.Context, tx pgx.Tx, dispute checkout.Ref) (request string, err error) {
	risk, err := pg.Value[string](ctx, tx, `
		SELECT id FROM charge_risk WHERE dispute_id = $1 AND merchant_id = $2 AND mode = $3 FOR NO KEY UPDATE`,
		dispute.ID, dispute.MerchantID, dispute.Mode)
	if err != nil {
		return "", err
	}
	request, err = pg.Value[string](ctx, tx, `
		SELECT request_id FROM dispute_evidence WHERE risk_id = $1 AND merchant_id = $2 AND mode = $3`,
		risk, dispute.MerchantID, dispute.Mode)
	return request, pg.Optional(err)
}

// EvidenceToSend is evidence with the card network that has its charge.
type EvidenceToSend struct {
	RequestID string
	RiskID    string // the card network's name of the dispute
	Acquirer  checkout.Acquirer
	Over      bool // the bank takes no evidence any more, as far as this service knows
	Content   checkout.Evidence
}

// EvidenceToSend returns the evidence about a dispute. It returns checkout.ErrNotFound when there is nothing to send.
func (s *Disputes) EvidenceToSend(ctx context.Context, dispute checkout.Ref) (EvidenceToSend, error) {
	e, err := pg.One[EvidenceToSend](ctx, s.pool, `
		SELECT e.request_id, r.id AS risk_id, t.acquirer, NOT `+takesEvidence+` AS over, e.content
		FROM dispute_evidence e JOIN charge_risk r ON r.id = e.risk_id JOIN transaction t ON t.id = r.transaction_id
		WHERE r.dispute_id = $1 AND e.merchant_id = $2 AND e.mode = $3 AND e.content IS NOT NULL`,
		dispute.ID, dispute.MerchantID, dispute.Mode)
	return e, pg.Wrap("evidence to send", err)
}

// FinishEvidence notes that the card network took the evidence, or why it did not, and deletes the content. A repeat
// changes nothing.
func (s *Disputes) FinishEvidence(
	ctx context.Context, owner checkout.Owner, e EvidenceToSend, failure checkout.EvidenceFailure,
) error {
	return pg.Exec(ctx, s.pool, "finish evidence", `
		UPDATE dispute_evidence SET content = NULL, failure = $5,
			sent_at = CASE WHEN $5 = '' THEN date_trunc('milliseconds', clock_timestamp()) END
		WHERE risk_id = $1 AND merchant_id = $2 AND mode = $3 AND request_id = $4 AND content IS NOT NULL`,
		e.RiskID, owner.MerchantID, owner.Mode, e.RequestID, failure)
}
