package activities

import (
	"context"
	"fmt"

	"github.com/shopspring/decimal"

	"example.com/checkout/workflows/checkout"
)

// BroadcastPayoutResult says whether the network accepted the transfer.
type BroadcastPayoutResult struct {
	Failure checkout.PayoutFailure `json:"failure,omitempty"` // "" when the network accepted it
}

// BroadcastPayout signs the transfer, stores it and sends it. A repeat sends the stored transfer;
// the network accepts the same transfer only once. It fails with PayoutNotFound.
func (a *Payments) BroadcastPayout(
	ctx context.Context, in checkout.Ref,
) (BroadcastPayoutResult, error) {
	network, err := a.networks(in.Mode)
	if err != nil {
		return BroadcastPayoutResult{}, asFinal(ctx, err, "")
	}

	p, signed, err := a.Store.Payout(ctx, in)
	if err != nil {
		return BroadcastPayoutResult{}, asFinal(ctx, err, ErrTypePayoutNotFound)
	}

	if p.Status == checkout.PayoutPending && p.Failure == "" && signed == nil {
		transfer, err := a.signTransfer(ctx, network.Payouts, p)
		if err != nil {
			return BroadcastPayoutResult{}, asFinal(ctx, err, "")
		}

		if signed, p.Failure, err = a.Store.RecordTransfer(ctx, in, transfer); err != nil {
			return BroadcastPayoutResult{}, asFinal(ctx, err, ErrTypePayoutNotFound)
		}
	}

	if p.Status != checkout.PayoutPending || p.Failure != "" {
		// An earlier run or another process decided it.
		return BroadcastPayoutResult{p.Failure}, nil
	}

	failure, err := network.Payouts.Broadcast(ctx, in.ID, signed)
	return BroadcastPayoutResult{failure}, asFinal(ctx, err, "")
}

func (a *Payments) signTransfer(
	ctx context.Context, network checkout.PayoutNetwork, p checkout.Payout,
) (checkout.Transfer, error) {
	gross, err := grossPayout(p)
	if err != nil {
		return checkout.Transfer{}, err
	}
	return network.Sign(ctx, checkout.TransferRequest{
		PayoutID: p.ID, TransactionID: p.TransactionID, Currency: p.Currency, Network: p.Network,
		Destination: p.Destination, Gross: gross,
	})
}

// grossPayout converts the payout's source amount at its locked rate. It rounds down to the decimal
// places of the payout currency.
func grossPayout(p checkout.Payout) (string, error) {
	rate, err := decimal.NewFromString(p.ExchangeRate)
	if err != nil {
		return "", fmt.Errorf("exchange rate of payout %s: %w", p.ID, err)
	}
	source := decimal.New(int64(p.SourceAmount), -p.SourceCurrency.Places())
	places := p.Currency.Places()
	return source.Mul(rate).RoundDown(places).StringFixed(places), nil
}
