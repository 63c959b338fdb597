package storage

import (
	"context"
	"time"

	"example.com/checkout/storage/pg"
)

// SandboxReport is a change in the sandbox's card network that the service does not know.
type SandboxReport struct {
	RefundID string
	ReportAt time.Time
}

// DueSandboxReports returns up to 100 reports that are due, earliest first.
func (s *Sandbox) DueSandboxReports(ctx context.Context) ([]SandboxReport, error) {
	due, err := pg.Collect[SandboxReport](ctx, s.pool, `
		SELECT id AS refund_id, report_at FROM sandbox_refund
		WHERE report_at <= clock_timestamp() ORDER BY report_at LIMIT 100`)
	return due, pg.Wrap("sandbox reports", err)
}

// EndSandboxReport records that the service took a report.
func (s *Sandbox) EndSandboxReport(ctx context.Context, r SandboxReport) error {
	return pg.Exec(ctx, s.pool, "end sandbox report", `
		UPDATE sandbox_refund SET report_at = NULL WHERE id = $1 AND report_at = $2`, r.RefundID, r.ReportAt)
}

// PostponeSandboxReport makes a report due after delay.
func (s *Sandbox) PostponeSandboxReport(ctx context.Context, r SandboxReport, delay time.Duration) error {
	return pg.Exec(ctx, s.pool, "postpone sandbox report", `
		UPDATE sandbox_refund SET report_at = clock_timestamp() + $3::interval WHERE id = $1 AND report_at = $2`,
		r.RefundID, r.ReportAt, delay)
}
