package storage

import (
	"cmp"
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/checkout/storage/people"
	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/books"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/webhook"
)

// Disputes keeps the evidence about disputes. The card network decides about them: see RecordRisks.
type Disputes struct{ *DisputeReader }

// DisputeReader reads disputes.
type DisputeReader struct{ pool *pgxpool.Pool }

// disputes are the disputes of every merchant, in the shape of a table d.
const disputes = `(
	SELECT r.dispute_id AS id, r.merchant_id, r.mode, t.session_id, r.transaction_id,
		CASE r.status WHEN 'inquiry' THEN 'warning' WHEN 'open' THEN
			CASE WHEN r.responded THEN 'under_review' ELSE 'needs_response' END ELSE r.status END AS status,
		r.reason, r.amount, r.currency, CASE WHEN r.fee_currency = r.currency THEN r.fee ELSE 0 END AS fee,
		CASE WHEN r.status IN ('inquiry', 'open') THEN r.respond_by END AS respond_by, s.metadata,
		r.noted_at AS created_at, CASE WHEN r.status IN ('won', 'lost') THEN r.changed_at END AS closed_at,
		e.submitted_at AS evidence_at, e.sent_at AS evidence_sent_at, coalesce(e.failure, '') AS evidence_failure,
		` + takesEvidence + ` AS takes_evidence, ` + evidenceStands + ` AS evidence_stands
	FROM charge_risk r JOIN transaction t ON t.id = r.transaction_id JOIN checkout_session s ON s.id = t.session_id
		LEFT JOIN dispute_evidence e ON e.risk_id = r.id
	WHERE r.dispute_id IS NOT NULL) d `

const selectDispute = `SELECT d.* FROM ` + disputes

// Dispute returns one dispute. It returns checkout.ErrNotFound.
func (s *DisputeReader) Dispute(ctx context.Context, ref checkout.Ref) (checkout.Dispute, error) {
	d, err := readDispute(ctx, s.pool, ref)
	return d, pg.Wrap("dispute", err)
}

func readDispute(ctx context.Context, from pg.Querier, ref checkout.Ref) (checkout.Dispute, error) {
	return pg.One[checkout.Dispute](ctx, from, selectDispute+`
		WHERE d.id = $1 AND d.merchant_id = $2 AND d.mode = $3`, ref.ID, ref.MerchantID, ref.Mode)
}

// DisputeFilter selects disputes. An empty field selects all.
type DisputeFilter struct {
	Status    checkout.DisputeStatus
	SessionID string
}

// Disputes lists disputes, newest first.
func (s *DisputeReader) Disputes(
	ctx context.Context, owner checkout.Owner, f DisputeFilter, p pg.Page,
) ([]checkout.Dispute, error) {
	q := pg.NewList(owner, "d")
	q.Equal("d.status", string(f.Status))
	q.Equal("d.session_id", f.SessionID)
	q.Page(checkout.PrefixDispute, "d", p)
	got, err := pg.Collect[checkout.Dispute](ctx, s.pool, selectDispute+q.SQL, q.Args...)
	return got, pg.Wrap("disputes", err)
}

// publishDispute stores the event of a dispute that was opened, or decided, and once the mail about it.
func (c paidCharge) publishDispute(ctx context.Context, tx pgx.Tx, before, after notedRisk) error {
	decided := func(s books.RiskStatus) bool { return s == books.RiskWon || s == books.RiskLost }
	var typ webhook.EventType
	switch {
	case decided(after.Status) && after.Status != before.Status:
		typ = webhook.DisputeClosed
	case before.Status == "" || decided(before.Status) && !decided(after.Status):
		typ = webhook.DisputeOpened
	default:
		return nil
	}
	d, err := readDispute(ctx, tx, c.owner().Ref(after.DisputeID))
	if err != nil {
		return err
	}
	if before.Status == "" {
		if err := mailDispute(ctx, tx, d); err != nil {
			return err
		}
	}
	_, err = publishAgain(ctx, tx, publication{
		Ref: checkout.Ref{Owner: c.owner()}, Type: typ, SubjectID: d.ID, SessionID: d.SessionID, Data: d, At: c.Now,
	})
	return err // Reconcile starts the deliveries
}

// mailDispute writes a mail about a new dispute, with nothing of the customer.
func mailDispute(ctx context.Context, tx pgx.Tx, d checkout.Dispute) error {
	evidence := "The bank takes no evidence."
	if d.RespondBy != nil {
		evidence = "The bank takes evidence until " + spokenTime(*d.RespondBy) + "."
	}
	to := []merchant.Role{merchant.RoleOwner, merchant.RoleDeveloper}
	return people.MailRoles(ctx, tx, d.MerchantID, to, merchant.MailDisputeOpened, string(d.Mode)+"/sessions/"+d.SessionID,
		fmt.Sprintf("Dispute: %s, %s mode\nAmount: %s %s\nReason: %s\n%s",
			d.ID, d.Mode, d.Amount, d.Currency, cmp.Or(d.Reason, "unknown"), evidence))
}
