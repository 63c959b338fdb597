package sandbox

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"time"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/books"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
)

// denial is what the customer's bank does about a card's payments, SettleAfter after each. See
// storage.SandboxDispute.
type denial struct {
	prefix, reason string
	status         string
	later          string        // the status when nobody answers within window
	window         time.Duration // 0: the bank wants no evidence
}

// evidenceWindow is how long the bank takes evidence.
const evidenceWindow = 7 * 24 * time.Hour

const fraudWarning = "early_fraud_warning"

var denials = map[behavior]denial{
	disputed:    {"du_", "fraudulent", "needs_response", "lost", evidenceWindow},
	inquired:    {"du_", "general", "warning_needs_response", "warning_closed", evidenceWindow},
	fraudWarned: {"issfr_", "", fraudWarning, fraudWarning, 0},
}

// deny makes the bank dispute a charge whose refunds have left something.
func (n *CardNetwork) deny(ctx context.Context, c storage.SandboxCharge, d denial) error {
	return n.Sandbox.OpenSandboxDispute(ctx, storage.SandboxDispute{
		ID: d.prefix + rand.Text(), TransactionID: c.TransactionID, Reason: d.reason, Status: d.status,
	}, d.later, d.window)
}

// riskStatuses has where the money of a dispute is.
var riskStatuses = map[string]books.RiskStatus{
	fraudWarning:             books.RiskInquiry,
	"warning_needs_response": books.RiskInquiry,
	"warning_under_review":   books.RiskInquiry,
	"warning_closed":         books.RiskWon,
	"needs_response":         books.RiskOpen,
	"under_review":           books.RiskOpen,
	"won":                    books.RiskWon,
	"lost":                   books.RiskLost,
}

// disputeFee is what the network takes for a dispute, in minor units of the charge's currency. An inquiry is free.
const disputeFee money.Amount = 15_00

// Risks returns what may take the money of a charge back: its dispute or warning of fraud and its refunds, in their
// present state. A charge that is not there has none.
func (n *CardNetwork) Risks(ctx context.Context, reference string) ([]books.ChargeRisk, error) {
	var risks []books.ChargeRisk
	c, err := n.Sandbox.SandboxCharge(ctx, reference)
	if errors.Is(err, checkout.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	d, err := n.Sandbox.SandboxDispute(ctx, reference)
	switch {
	case err == nil:
		risks = append(risks, disputeRisk(d))
	case !errors.Is(err, checkout.ErrNotFound):
		return nil, err
	}
	refunds, err := n.Sandbox.SandboxRefunds(ctx, reference)
	for _, r := range refunds {
		risks = append(risks, books.ChargeRisk{
			ID: r.ID, Kind: books.RiskRefund, Status: books.RiskOf(r.Status), Amount: r.Amount, Currency: c.Currency,
			RefundID: r.ID,
		})
	}
	return risks, err
}

func disputeRisk(d storage.SandboxDispute) books.ChargeRisk {
	risk := books.ChargeRisk{
		ID: d.ID, Kind: books.RiskDispute, Status: riskStatuses[d.Status], Amount: d.Amount, Currency: d.Currency,
		Reason: d.Reason, Responded: d.Responded,
	}
	if d.Status == fraudWarning {
		risk.Kind = books.RiskFraudWarning
		return risk
	}
	if strings.HasSuffix(d.Status, "needs_response") {
		risk.RespondBy = d.RespondBy.UTC()
	}
	if !strings.HasPrefix(d.Status, "warning_") {
		risk.Fee, risk.FeeCurrency = disputeFee, d.Currency
	}
	return risk
}

// outcomes has what a text of evidence makes of a dispute, and of an inquiry. Source: docs.stripe.com/testing.
var outcomes = map[string]string{"winning_evidence": "won", "losing_evidence": "lost"}

// Respond answers a dispute or an inquiry with evidence. Only the first answer counts: a repeat does nothing. The field
// uncategorized_text decides, SettleAfter later: winning_evidence wins and losing_evidence loses. Other evidence loses
// when the time for evidence ends. An inquiry is closed in either case. It returns a *checkout.EvidenceError,
// checkout.ErrNotFound, and checkout.ErrConflict when the bank takes no evidence, or none any more.
func (n *CardNetwork) Respond(ctx context.Context, disputeID string, e checkout.Evidence) error {
	if err := e.Check(); err != nil {
		return err
	}
	err := n.Sandbox.RespondSandboxDispute(ctx, disputeID, outcomes[e.Texts["uncategorized_text"]], n.SettleAfter)
	if err == nil {
		n.signalDueIn(0)
		n.signalDueIn(n.SettleAfter)
	}
	return err
}
