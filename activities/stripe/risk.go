package stripe

import (
	"context"
	"fmt"
	"strings"

	"github.com/stripe/stripe-go/v85"

	"example.com/checkout/workflows/checkout"
)

// Risks returns what may take the money of an intent's charge back: its disputes, warnings of fraud and
// refunds, those of this service too. It asks for their present state.
func (n *Network) Risks(ctx context.Context, reference string) ([]checkout.ChargeRisk, error) {
	if !isReference(reference) {
		return nil, fmt.Errorf("%q is not the id of a payment intent", reference)
	}
	var risks []checkout.ChargeRisk
	for _, list := range []func(context.Context, string) ([]checkout.ChargeRisk, error){
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

func (n *Network) disputes(ctx context.Context, reference string) (risks []checkout.ChargeRisk, err error) {
	params := &stripe.DisputeListParams{PaymentIntent: stripe.String(reference)}
	for d, err := range n.api.V1Disputes.List(ctx, params).All(ctx) {
		if err != nil {
			return nil, err
		}
		risks = append(risks, checkout.ChargeRisk{
			ID: d.ID, Kind: checkout.RiskDispute, Status: disputeStatus(d),
			Amount: checkout.Amount(d.Amount), Currency: currency(d.Currency),
		})
	}
	return risks, nil
}

// disputeStatus says where the money of a dispute is. A warning is a question of the bank: no money
// moves unless it becomes a dispute. A prevented dispute was kept away, or it was resolved by giving the
// customer the money: only its balance transactions tell. A status that is not known holds the payout.
func disputeStatus(d *stripe.Dispute) checkout.RiskStatus {
	switch d.Status {
	case stripe.DisputeStatusWon, stripe.DisputeStatusWarningClosed:
		return checkout.RiskWon
	case stripe.DisputeStatusLost:
		return checkout.RiskLost
	case stripe.DisputeStatusWarningNeedsResponse, stripe.DisputeStatusWarningUnderReview:
		return checkout.RiskInquiry
	case stripe.DisputeStatusPrevented:
		var moved int64
		for _, b := range d.BalanceTransactions {
			moved += b.Amount
		}
		if moved < 0 {
			return checkout.RiskLost
		}
		return checkout.RiskWon
	}
	return checkout.RiskOpen
}

func (n *Network) fraudWarnings(ctx context.Context, reference string) (risks []checkout.ChargeRisk, err error) {
	params := &stripe.RadarEarlyFraudWarningListParams{PaymentIntent: stripe.String(reference)}
	params.Expand = []*string{stripe.String("data.charge")}
	for w, err := range n.api.V1RadarEarlyFraudWarnings.List(ctx, params).All(ctx) {
		if err != nil {
			return nil, err
		}
		risk := checkout.ChargeRisk{ID: w.ID, Kind: checkout.RiskFraudWarning, Status: checkout.RiskInquiry}
		if w.Charge != nil {
			risk.Amount, risk.Currency = checkout.Amount(w.Charge.Amount), currency(w.Charge.Currency)
		}
		risks = append(risks, risk)
	}
	return risks, nil
}

func (n *Network) refunds(ctx context.Context, reference string) (risks []checkout.ChargeRisk, err error) {
	params := &stripe.RefundListParams{PaymentIntent: stripe.String(reference)}
	for r, err := range n.api.V1Refunds.List(ctx, params).All(ctx) {
		if err != nil {
			return nil, err
		}
		risks = append(risks, checkout.ChargeRisk{
			ID: r.ID, Kind: checkout.RiskRefund, Status: refundStatus(r.Status).Risk(), Amount: checkout.Amount(r.Amount),
			Currency: currency(r.Currency), RefundID: r.Metadata[metadataRefund],
		})
	}
	return risks, nil
}

func currency(c stripe.Currency) checkout.Currency {
	return checkout.Currency(strings.ToUpper(string(c)))
}
