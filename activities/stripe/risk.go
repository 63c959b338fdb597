package stripe

import (
	"context"
	"fmt"
	"strings"

	"github.com/stripe/stripe-go/v85"

	"example.com/checkout/workflows/books"
	"example.com/checkout/workflows/money"
)

// Risks returns what may take the money of an intent's charge back: its disputes, warnings of fraud and refunds, this
// service's included, in their present state.
func (n *Network) Risks(ctx context.Context, reference string) ([]books.ChargeRisk, error) {
	if !isReference(reference) {
		return nil, fmt.Errorf("%q is not the id of a payment intent", reference)
	}
	var risks []books.ChargeRisk
	for _, list := range []func(context.Context, string) ([]books.ChargeRisk, error){
		n.disputes, n.fraudWarnings, n.refunds,
	} {
		got, err := list(ctx, reference)
		if err != nil {
			return nil, fmt.Errorf("risks of %s: %w", reference, publicError(err))
		}
		risks = append(risks, got...)
	}
	return risks, nil
}

func (n *Network) disputes(ctx context.Context, reference string) (risks []books.ChargeRisk, err error) {
	params := &stripe.DisputeListParams{PaymentIntent: stripe.String(reference)}
	for d, err := range n.api.V1Disputes.List(ctx, params).All(ctx) {
		if err != nil {
			return nil, err
		}
		risks = append(risks, disputeRisk(d))
	}
	return risks, nil
}

func disputeRisk(d *stripe.Dispute) books.ChargeRisk {
	risk := books.ChargeRisk{
		ID: d.ID, Kind: books.RiskDispute, Status: disputeStatus(d), Reason: safeWord(string(d.Reason)),
		Amount: money.Amount(d.Amount), Currency: currency(d.Currency),
	}
	if e := d.EvidenceDetails; e != nil {
		risk.Responded = answered(d)
		if wantsEvidence(d) {
			risk.RespondBy = unixTime(e.DueBy)
		}
	}
	for _, b := range d.BalanceTransactions { // all of one balance
		risk.Fee += money.Amount(b.Fee)
		risk.FeeCurrency = currency(b.Currency)
	}
	return risk
}

// wantsEvidence reports whether the bank waits for evidence. Some banks take none: their disputes have no date.
func wantsEvidence(d *stripe.Dispute) bool {
	waits := d.Status == stripe.DisputeStatusNeedsResponse || d.Status == stripe.DisputeStatusWarningNeedsResponse
	return waits && d.EvidenceDetails != nil && d.EvidenceDetails.DueBy > 0
}

// disputeStatus returns where the money of a dispute is. A warning is a question of the bank: no money moves unless it
// becomes a dispute. A prevented dispute was kept away, or the customer got the money: only its balance transactions
// show which. An unknown status holds the payout.
func disputeStatus(d *stripe.Dispute) books.RiskStatus {
	switch d.Status {
	case stripe.DisputeStatusWon, stripe.DisputeStatusWarningClosed:
		return books.RiskWon
	case stripe.DisputeStatusLost:
		return books.RiskLost
	case stripe.DisputeStatusWarningNeedsResponse, stripe.DisputeStatusWarningUnderReview:
		return books.RiskInquiry
	case stripe.DisputeStatusPrevented:
		var moved int64
		for _, b := range d.BalanceTransactions {
			moved += b.Amount
		}
		if moved < 0 {
			return books.RiskLost
		}
		return books.RiskWon
	}
	return books.RiskOpen
}

func (n *Network) fraudWarnings(ctx context.Context, reference string) (risks []books.ChargeRisk, err error) {
	params := &stripe.RadarEarlyFraudWarningListParams{PaymentIntent: stripe.String(reference)}
	params.Expand = []*string{stripe.String("data.charge")}
	for w, err := range n.api.V1RadarEarlyFraudWarnings.List(ctx, params).All(ctx) {
		if err != nil {
			return nil, err
		}
		risk := books.ChargeRisk{ID: w.ID, Kind: books.RiskFraudWarning, Status: books.RiskInquiry}
		if w.Charge != nil {
			risk.Amount, risk.Currency = money.Amount(w.Charge.Amount), currency(w.Charge.Currency)
		}
		risks = append(risks, risk)
	}
	return risks, nil
}

func (n *Network) refunds(ctx context.Context, reference string) (risks []books.ChargeRisk, err error) {
	params := &stripe.RefundListParams{PaymentIntent: stripe.String(reference)}
	for r, err := range n.api.V1Refunds.List(ctx, params).All(ctx) {
		if err != nil {
			return nil, err
		}
		risks = append(risks, books.ChargeRisk{
			ID: r.ID, Kind: books.RiskRefund, Status: books.RiskOf(refundStatus(r.Status)), Amount: money.Amount(r.Amount),
			Currency: currency(r.Currency), RefundID: r.Metadata[metadataRefund],
		})
	}
	return risks, nil
}

func currency(c stripe.Currency) money.Currency {
	return money.Currency(strings.ToUpper(string(c)))
}
