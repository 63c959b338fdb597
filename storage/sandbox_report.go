package storage

import (
	"context"
	"time"

	"example.com/checkout/storage/pg"
)

// SandboxReport is a change of a refund or a dispute in the sandbox's card network that the service does not know.
type SandboxReport struct {
	RefundID  string // "" for a dispute
	DisputeID string // "" for a refund
	Reference string // the card network's name of the charge
	ReportAt  time.Time
}

// DueSandboxReports returns up to 100 reports that are due, earliest first.
func (s *Sandbox) DueSandboxReports(ctx context.Context) ([]SandboxReport, error) {
	due, err := pg.Collect[SandboxReport](ctx, s.pool, `
		SELECT id AS refund_id, '' AS dispute_id, transaction_id AS reference, report_at FROM sandbox_refund
		WHERE report_at <= clock_timestamp()
		UNION ALL
		SELECT '', id, transaction_id, report_at FROM sandbox_dispute WHERE report_at <= clock_timestamp()
		ORDER BY report_at LIMIT 100`)
	return due, pg.Wrap("sandbox reports", err)
}

// EndSandboxReport records that the service took a report. The next one is due with the next change.
func (s *Sandbox) EndSandboxReport(ctx context.Context, r SandboxReport) error {
	return s.moveReport(ctx, r, `CASE WHEN report_at < later_at THEN later_at END`)
}

// PostponeSandboxReport makes a report due after delay.
func (s *Sandbox) PostponeSandboxReport(ctx context.Context, r SandboxReport, delay time.Duration) error {
	return s.moveReport(ctx, r, `clock_timestamp() + $3::interval`, delay)
}

// moveReport sets the time of the report, unless it has changed meanwhile.
func (s *Sandbox) moveReport(ctx context.Context, r SandboxReport, to string, args ...any) error {
	table, id := "sandbox_refund", r.RefundID
	if r.DisputeID != "" {
		table, id = "sandbox_dispute", r.DisputeID
	}
	return pg.Exec(ctx, s.pool, "move sandbox report",
		`UPDATE `+table+` SET report_at = `+to+` WHERE id = $1 AND report_at = $2`, append([]any{id, r.ReportAt}, args...)...)
}
