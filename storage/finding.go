package storage

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/books"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
)

const findingColumns = `id, mode, kind, subject, detail, opened_at, closed_at`

// OpenFinding stores a finding unless the same one is open. It returns whether it is new. Findings
// belong to the operator and not to a merchant.
func (s *Books) OpenFinding(ctx context.Context, f books.Finding) (bool, error) {
	return openFinding(ctx, s.pool, f)
}

func openFinding(ctx context.Context, to pg.Executor, f books.Finding) (bool, error) {
	tag, err := to.Exec(ctx, `
		INSERT INTO finding (id, mode, kind, subject, detail, opened_at)
		VALUES ($1, $2, $3, $4, $5, date_trunc('milliseconds', clock_timestamp()))
		ON CONFLICT (mode, kind, subject) WHERE closed_at IS NULL DO NOTHING`,
		checkout.NewID(checkout.PrefixFinding), f.Mode, f.Kind, f.Subject, f.Detail)
	return tag.RowsAffected() == 1, pg.Wrap("open finding", err)
}

// keepFinding opens a finding while something differs, and closes it otherwise. It returns the finding when it is new.
func keepFinding(ctx context.Context, to pg.Executor, differs bool, f books.Finding) ([]books.Finding, error) {
	if !differs {
		return nil, closeFindings(ctx, to, f.Mode, []string{f.Subject}, f.Kind)
	}
	fresh, err := openFinding(ctx, to, f)
	if err != nil || !fresh {
		return nil, err
	}
	return []books.Finding{f}, nil
}

// keepFindings opens the findings of a kind that are not open, and closes its others. It returns the new ones.
func keepFindings(
	ctx context.Context, tx pgx.Tx, mode checkout.Mode, kind books.FindingKind, found []books.Finding,
) (fresh []books.Finding, err error) {
	subjects := []string{}
	for _, f := range found {
		f.Mode, f.Kind, subjects = mode, kind, append(subjects, f.Subject)
		opened, err := keepFinding(ctx, tx, true, f)
		if err != nil {
			return nil, err
		}
		fresh = append(fresh, opened...)
	}
	_, err = tx.Exec(ctx, `
		UPDATE finding SET closed_at = date_trunc('milliseconds', clock_timestamp())
		WHERE mode = $1 AND kind = $2 AND subject <> ALL ($3) AND closed_at IS NULL`, mode, kind, subjects)
	return fresh, err
}

// CloseFindings closes the open findings of the kinds about the subjects.
func (s *Books) CloseFindings(
	ctx context.Context, mode checkout.Mode, subjects []string, kinds ...books.FindingKind,
) error {
	return closeFindings(ctx, s.pool, mode, subjects, kinds...)
}

func closeFindings(
	ctx context.Context, to pg.Executor, mode checkout.Mode, subjects []string, kinds ...books.FindingKind,
) error {
	return pg.Exec(ctx, to, "close findings", `
		UPDATE finding SET closed_at = date_trunc('milliseconds', clock_timestamp())
		WHERE mode = $1 AND subject = ANY ($2) AND kind = ANY ($3) AND closed_at IS NULL`, mode, subjects, kinds)
}

// CloseFinding closes an open finding because an operator has cleared it up. why is kept with the finding, for
// operators only. by is the entry in the audit log of the merchant whose charge it is about, without the
// merchant; a charge that is not in the database has none. What still differs is found again.
//
// It returns checkout.ErrNotFound, and checkout.ErrConflict when the finding is closed.
func (s *Books) CloseFinding(ctx context.Context, id, why string, by merchant.AuditEntry) error {
	return pg.RunInTx(ctx, s.pool, "close finding", func(tx pgx.Tx) error {
		f, err := pg.One[books.Finding](ctx, tx, `
			SELECT `+findingColumns+` FROM finding WHERE id = $1 FOR NO KEY UPDATE`, id)
		if err != nil {
			return err
		}
		if f.ClosedAt != nil {
			return fmt.Errorf("%w: the finding is closed", checkout.ErrConflict)
		}
		_, err = tx.Exec(ctx, `
			UPDATE finding SET closed_at = date_trunc('milliseconds', clock_timestamp()), closed_why = $2
			WHERE id = $1`, id, why)
		if err != nil {
			return err
		}
		merchants, err := pg.Value[[]string](ctx, tx, `
			SELECT array_agg(t.merchant_id) FROM transaction t WHERE t.mode = $1 AND ($2 IN (t.id, t.acquirer_ref)
				OR t.id = (SELECT transaction_id FROM charge_risk WHERE id = $2 AND mode = $1)
				OR t.id = (SELECT transaction_id FROM refund WHERE id = $2 AND mode = $1)
				OR t.id = (SELECT transaction_id FROM payout WHERE id = $2 AND mode = $1))`, f.Mode, f.Subject)
		if err != nil {
			return err
		}
		for _, merchantID := range merchants {
			by.ID, by.MerchantID, by.Mode = checkout.NewID(checkout.PrefixAuditEntry), merchantID, &f.Mode
			by.Subject, by.Detail = f.ID, string(f.Kind)+" of "+f.Subject
			if err := pg.Audit(ctx, tx, by); err != nil {
				return err
			}
		}
		return nil
	})
}

// OpenFindings lists the open findings of a mode, oldest first.
func (s *Books) OpenFindings(ctx context.Context, mode checkout.Mode) ([]books.Finding, error) {
	got, err := openFindings(ctx, s.pool, mode)
	return got, pg.Wrap("findings", err)
}

func openFindings(ctx context.Context, from pg.Querier, mode checkout.Mode) ([]books.Finding, error) {
	return pg.Collect[books.Finding](ctx, from, `
		SELECT `+findingColumns+` FROM finding
		WHERE mode = $1 AND closed_at IS NULL ORDER BY opened_at, id`, mode)
}
