package storage

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/workflows/checkout"
)

// OpenFinding stores a finding unless the same one is open. It returns whether it is new. Findings
// belong to the operator and not to a merchant.
func (s *Store) OpenFinding(ctx context.Context, f checkout.Finding) (bool, error) {
	return openFinding(ctx, s.pool, f)
}

func openFinding(ctx context.Context, to executor, f checkout.Finding) (bool, error) {
	tag, err := to.Exec(ctx, `
		INSERT INTO finding (id, mode, kind, subject, detail, opened_at)
		VALUES ($1, $2, $3, $4, $5, date_trunc('milliseconds', clock_timestamp()))
		ON CONFLICT (mode, kind, subject) WHERE closed_at IS NULL DO NOTHING`,
		checkout.NewID(checkout.PrefixFinding), f.Mode, f.Kind, f.Subject, f.Detail)
	if err != nil {
		return false, fmt.Errorf("open finding: %w", err)
	}
	return tag.RowsAffected() == 1, nil
}

// CloseFindings closes the open findings of the kinds about a subject.
func (s *Store) CloseFindings(
	ctx context.Context, mode checkout.Mode, subject string, kinds ...checkout.FindingKind,
) error {
	return closeFindings(ctx, s.pool, mode, subject, kinds...)
}

func closeFindings(
	ctx context.Context, to executor, mode checkout.Mode, subject string, kinds ...checkout.FindingKind,
) error {
	_, err := to.Exec(ctx, `
		UPDATE finding SET closed_at = date_trunc('milliseconds', clock_timestamp())
		WHERE mode = $1 AND subject = $2 AND kind = ANY ($3) AND closed_at IS NULL`, mode, subject, kinds)
	if err != nil {
		return fmt.Errorf("close findings: %w", err)
	}
	return nil
}

// OpenFindings lists the open findings of a mode, oldest first.
func (s *Store) OpenFindings(ctx context.Context, mode checkout.Mode) ([]checkout.Finding, error) {
	got, err := openFindings(ctx, s.pool, mode)
	if err != nil {
		return nil, fmt.Errorf("findings: %w", err)
	}
	return got, nil
}

func openFindings(ctx context.Context, from querier, mode checkout.Mode) ([]checkout.Finding, error) {
	rows, err := from.Query(ctx, `
		SELECT id, mode, kind, subject, detail, opened_at, closed_at FROM finding
		WHERE mode = $1 AND closed_at IS NULL ORDER BY opened_at, id`, mode)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByName[checkout.Finding])
}
