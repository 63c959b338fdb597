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

// MerchantLimits are the limits above which a merchant becomes a finding. A limit of 0 is none. Source:
// api/decisions/merchants.md, "limits of a merchant".
type MerchantLimits struct {
	DisputedPercent float64 // of the payments of merchant.RiskDays
	RefundedPercent float64
	Declined        int  // payments within declinedWithin whose card was declined
	Suspend         bool // payments, and above DisputedPercent payouts too
}

// The shares of a few payments mean nothing.
const (
	leastDisputed = 5
	leastRefunded = 20

	declinedWithin = "10 minutes"
)

// judgedMerchant has the counts of a merchant that may be above a limit.
type judgedMerchant struct {
	merchant.Risk

	Declined, Succeeded int // within declinedWithin
}

// JudgeMerchants opens a finding for each live merchant that is above a limit, closes those whose merchant is below
// again, and returns the new ones. With limits.Suspend, the transaction that opens a finding suspends the merchant too.
// So what an operator resumes stays so until the finding has closed.
func (s *Books) JudgeMerchants(ctx context.Context, limits MerchantLimits) (fresh []books.Finding, err error) {
	judged, err := s.judgedMerchants(ctx, limits)
	if err != nil {
		return nil, pg.Wrap("judge merchants", err)
	}
	for _, l := range limits.rules() {
		found, suspended := []books.Finding{}, merchant.Suspended(nil)
		for _, m := range judged {
			if l.above(m) {
				found = append(found, books.Finding{Subject: m.ID, Detail: l.detail(m)})
			}
		}
		if limits.Suspend {
			suspended = l.suspends
		}
		opened, err := pg.InTx(ctx, s.pool, "judge merchants", func(tx pgx.Tx) ([]books.Finding, error) {
			opened, err := keepFindings(ctx, tx, checkout.ModeLive, l.kind, found)
			for _, f := range opened {
				if err == nil && len(suspended) > 0 {
					err = suspendAbove(ctx, tx, f, suspended)
				}
			}
			return opened, err
		})
		if err != nil {
			return fresh, err
		}
		fresh = append(fresh, opened...)
	}
	return fresh, nil
}

func suspendAbove(ctx context.Context, tx pgx.Tx, f books.Finding, all merchant.Suspended) error {
	_, err := suspend(ctx, tx, f.Subject, all, f.Detail, merchant.AuditEntry{
		ID: checkout.NewID(checkout.PrefixAuditEntry), MerchantID: f.Subject, Actor: "the service",
		Action: "merchant.suspended", Subject: f.Subject, Detail: all.String() + ": " + f.Detail,
	})
	return err
}

// merchantRule is what a limit finds, and what it suspends.
type merchantRule struct {
	kind     books.FindingKind
	suspends merchant.Suspended
	above    func(judgedMerchant) bool
	detail   func(judgedMerchant) string
}

func (l MerchantLimits) rules() []merchantRule {
	payments := merchant.Suspended{merchant.CapabilityPayments}
	return []merchantRule{{
		books.FindingMerchantDisputes, append(payments, merchant.CapabilityPayouts),
		func(m judgedMerchant) bool {
			return l.DisputedPercent > 0 && m.Disputed >= leastDisputed && m.DisputedPercent() > l.DisputedPercent
		},
		func(m judgedMerchant) string {
			return describeShare(m, m.Disputed, "disputed", m.DisputedPercent(), l.DisputedPercent)
		},
	}, {
		books.FindingMerchantRefunds, payments,
		func(m judgedMerchant) bool {
			return l.RefundedPercent > 0 && m.Refunded >= leastRefunded && m.RefundedPercent() > l.RefundedPercent
		},
		func(m judgedMerchant) string {
			return describeShare(m, m.Refunded, "refunded", m.RefundedPercent(), l.RefundedPercent)
		},
	}, {
		books.FindingCardTesting, payments,
		func(m judgedMerchant) bool {
			return l.Declined > 0 && m.Declined >= l.Declined && m.Declined > m.Succeeded
		},
		func(m judgedMerchant) string {
			return fmt.Sprintf("%d cards were declined within %s, and %d payments succeeded.",
				m.Declined, declinedWithin, m.Succeeded)
		},
	}}
}

func describeShare(m judgedMerchant, part int, what string, share, limit float64) string {
	return fmt.Sprintf("%d payments of %d in %d days are %s, %.2f %%: the limit is %g %%.",
		part, m.Payments, merchant.RiskDays, what, share, limit)
}

// judgedMerchants reads the counts of the live merchants that have enough disputes, refunds or declined cards. Only for
// these it counts the payments.
func (s *Books) judgedMerchants(ctx context.Context, limits MerchantLimits) (all []judgedMerchant, err error) {
	session, refund, dispute := riskIDs()
	type row struct {
		ID                                                string
		Payments, Disputed, Refunded, Declined, Succeeded int
	}
	rows, err := pg.Collect[row](ctx, s.pool, `
		SELECT m.*, `+paymentsOf+` AS payments, CASE WHEN m.declined = 0 THEN 0 ELSE (
			SELECT count(*) FROM transaction t WHERE t.merchant_id = m.id AND t.mode = 'live' AND t.status = 'succeeded'
				AND t.completed_at > clock_timestamp() - interval '`+declinedWithin+`') END AS succeeded
		FROM (
			SELECT m.id, `+refundedOf+` AS refunded, `+disputedOf+` AS disputed, coalesce(x.declined, 0) AS declined
			FROM merchant m LEFT JOIN (
				SELECT t.merchant_id, count(*) AS declined FROM transaction t WHERE t.mode = 'live' AND t.status = 'failed'
					AND t.completed_at > clock_timestamp() - interval '`+declinedWithin+`' AND t.failure <> ALL ($5)
				GROUP BY 1 HAVING count(*) >= $6
			) x ON x.merchant_id = m.id
		) m WHERE disputed >= $7 OR refunded >= $8 OR declined > 0 ORDER BY m.id`,
		checkout.ModeLive, session, refund, dispute,
		checkout.UndeclinedFailures, max(limits.Declined, 1), leastDisputed, leastRefunded)
	for _, r := range rows {
		risk := merchant.Risk{Payments: r.Payments, Refunded: r.Refunded, Disputed: r.Disputed}
		risk.ID = r.ID
		all = append(all, judgedMerchant{risk, r.Declined, r.Succeeded})
	}
	return all, err
}
