package sandbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strings"

	"github.com/shopspring/decimal"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/treasury"
)

// Payouts sends the payouts of the sandbox, whose chain needs no treasury. It implements activities.PayoutSender.
type Payouts struct {
	Sandbox *storage.Sandbox
	Payouts *storage.Payouts
}

// Transfer signs the transfer, stores it and sends it, the latter two in one statement. A repeat sends the stored
// transfer; the chain accepts the same transfer only once.
func (n *Payouts) Transfer(ctx context.Context, p storage.PayoutToSend) (treasury.TransferOutcome, error) {
	if p.MayOwe && p.Recorded == nil {
		var err error
		if p.Payout, err = n.Payouts.RecoverDebt(ctx, p.Payout, Rates{}); err != nil {
			return treasury.TransferOutcome{}, err
		}
	}
	if p.Status == checkout.PayoutPending && p.Failure == "" && p.Net() == 0 { // a dispute may take all of it
		return n.hold(ctx, p.Payout, checkout.HoldRisk)
	}
	if p.Status == checkout.PayoutPending && p.Failure == "" && p.Recorded == nil {
		transfer, err := signTransfer(p)
		if err != nil {
			return treasury.TransferOutcome{}, err
		}
		if transfer.Failed == "" {
			failure, err := refusalOf(p.ID, transfer.Signed)
			sent := false
			if err == nil && failure == "" {
				sent, err = n.Sandbox.SendSandboxTransfer(ctx, p.Payout, transfer)
			}
			if err != nil || sent {
				return treasury.TransferOutcome{Generation: p.Generation}, err
			}
		}
		p.Recorded, p.Failure, err = n.Sandbox.RecordSandboxTransfer(ctx, p.Payout, transfer)
		if errors.Is(err, checkout.ErrMerchantSuspended) {
			return n.hold(ctx, p.Payout, checkout.HoldSuspended)
		}
		if err != nil {
			return treasury.TransferOutcome{}, err
		}
	}

	if p.Status != checkout.PayoutPending || p.Failure != "" {
		// An earlier run or another process decided it.
		return treasury.TransferOutcome{Failure: p.Failure, Generation: p.Generation}, nil
	}
	failure, err := n.broadcast(ctx, p.ID, p.Recorded)
	return treasury.TransferOutcome{Failure: failure, Generation: p.Generation}, err
}

func (n *Payouts) hold(
	ctx context.Context, p checkout.Payout, why checkout.PayoutHold,
) (treasury.TransferOutcome, error) {
	held, err := n.Payouts.HoldPayout(ctx, p, why, 0)
	held.Generation = p.Generation
	return held, err
}

// networkFee is the chain's fee, as a fraction of the gross amount: 0.1 %.
var networkFee = big.NewRat(1, 1000)

// Addresses that make a payout fail. Source: api/README.md, "Test payout addresses".
const (
	addressInvalid      = "sandbox:invalid"
	addressNetworkError = "sandbox:network-error"
	addressNoLiquidity  = "sandbox:no-liquidity"
)

// transferBody is the signed content of a transfer.
type transferBody struct {
	PayoutID    string `json:"payout_id"`
	Currency    string `json:"currency"`
	Destination string `json:"destination"`
	Amount      string `json:"amount"`
	Fails       string `json:"fails,omitempty"` // the failure that the chain will report
}

// signTransfer prices and signs a transfer. It does not send it.
func signTransfer(p storage.PayoutToSend) (treasury.SandboxTransfer, error) {
	gross := p.Gross()
	body := transferBody{PayoutID: p.ID, Currency: string(gross.Currency()), Destination: p.Destination}
	switch {
	case !validAddress(p.Destination), behavior(p.Behavior) == payoutBadAddress:
		return treasury.SandboxTransfer{Failed: checkout.PayoutInvalidAddress}, nil
	case p.Destination == addressNoLiquidity:
		return treasury.SandboxTransfer{Failed: checkout.PayoutInsufficientLiquidity}, nil
	case p.Destination == addressNetworkError, behavior(p.Behavior) == payoutBreaks:
		body.Fails = string(checkout.PayoutNetworkError)
	}

	fee := money.CeilCrypto(new(big.Rat).Mul(gross.Coins(), networkFee), gross.Currency())
	amount := gross.Sub(fee)
	body.Amount = amount.String()
	signed, err := json.Marshal(body)
	if err != nil {
		return treasury.SandboxTransfer{}, err
	}

	hash := sha256.Sum256(signed)
	return treasury.SandboxTransfer{
		Signed: signed, TxHash: "0x" + hex.EncodeToString(hash[:]), Amount: amount, Fee: fee,
	}, nil
}

// broadcast sends a signed transfer. A repeat of the same transfer succeeds too. A failure code means that the chain
// refused it for good.
func (n *Payouts) broadcast(ctx context.Context, payoutID string, signed []byte) (checkout.PayoutFailure, error) {
	if failure, err := refusalOf(payoutID, signed); err != nil || failure != "" {
		return failure, err
	}
	hash := sha256.Sum256(signed)
	return "", n.Sandbox.BroadcastSandboxTransfer(ctx, "0x"+hex.EncodeToString(hash[:]), payoutID)
}

// refusalOf returns why the chain refuses a signed transfer, "" when it takes it.
func refusalOf(payoutID string, signed []byte) (checkout.PayoutFailure, error) {
	var body transferBody
	if err := json.Unmarshal(signed, &body); err != nil || body.PayoutID != payoutID {
		return "", fmt.Errorf("sandbox: not a transfer of payout %s", payoutID)
	}
	return checkout.PayoutFailure(body.Fails), nil
}

// validAddress accepts every address that is not empty and not documented as invalid. The sandbox has no chain to check
// it.
func validAddress(address string) bool {
	return strings.TrimSpace(address) != "" && address != addressInvalid
}

// Rates implements checkout.RateSource for test mode, with fixed prices.
type Rates struct{}

// Quote implements checkout.RateSource.
func (Rates) Quote(_ context.Context, from money.Currency, to money.PayoutCurrency) (checkout.Quote, error) {
	fiat, crypto := from.TestPrice(), to.TestPrice()
	if fiat == "" || crypto == "" {
		return checkout.Quote{}, fmt.Errorf("sandbox: no rate from %s to %s", from, to)
	}
	rate := decimal.RequireFromString(fiat).DivRound(decimal.RequireFromString(crypto), 18)
	return checkout.Quote{Rate: money.MustRate(rate.String())}, nil
}
