// Package treasury sends payouts from the accounts of the service, and follows them until they are
// final on their chains. PostgreSQL holds every signed transfer before a network sees it. No answer
// of a chain decides anything: the state of the chain does.
package treasury

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/address"
	"example.com/checkout/workflows/books"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/treasury"
)

// Treasury pays the payouts of one mode. Any number of processes may do so at once, with the same accounts.
type Treasury struct {
	Payouts    *storage.Payouts
	Store      *storage.Treasury
	Mode       checkout.Mode
	Chains     map[string]treasury.Chain // by network
	Rates      checkout.RateSource
	Limits     treasury.PayoutLimits
	Patience   time.Duration // how long a payout stays on hold before it fails; 0 means 24 hours
	StuckAfter time.Duration // how long the network may leave a version alone before its fee is raised; 0 means 2 minutes

	Delay      time.Duration // from a payment to the signature of its payout
	Sanctioned address.List  // nothing is paid there
}

// Errors of Transfer. The payout stays pending, and the call may be repeated.
var (
	// ErrNoChain: no chain is configured for the payout's network and mode.
	ErrNoChain = errors.New("no chain is configured for this network and mode")
	// ErrNotTaken: the transfer is stored, and no node has it yet. Sync sends it again.
	ErrNotTaken = errors.New("the network has not taken the transfer yet")
)

// Transfer sends a pending payout that was just read from PostgreSQL. The zero outcome means that the network
// has the transfer, now or from an earlier call. Any error means that the outcome is unknown; a repeat is
// safe and signs no second transfer. It returns checkout.ErrConflict when the payout changed meanwhile,
// treasury.ErrAwaitsBatch, ErrNoChain and ErrNotTaken, among others.
func (t *Treasury) Transfer(ctx context.Context, p storage.PayoutToSend) (treasury.TransferOutcome, error) {
	out, err := t.transfer(ctx, p.Payout)
	if err != nil {
		out, err = t.putOff(ctx, p.Payout, err)
	}
	out.Generation = p.Generation
	return out, err
}

func (t *Treasury) transfer(ctx context.Context, p checkout.Payout) (treasury.TransferOutcome, error) {
	if p.Status != checkout.PayoutPending || p.Failure != "" {
		return treasury.TransferOutcome{Failure: p.Failure}, nil
	}
	chain := t.Chains[p.Network]
	if chain == nil || p.Mode != t.Mode {
		return treasury.TransferOutcome{}, ErrNoChain
	}

	v, stands, err := t.Store.StandingTransfer(ctx, p.Ref)
	if err != nil {
		return treasury.TransferOutcome{}, err
	}
	if !stands && chain.Batch().Most > 1 {
		return waitForBatch(p)
	}
	if !stands {
		signed, err := t.signPayout(ctx, chain, p)
		if err != nil {
			return treasury.TransferOutcome{}, err
		}
		if v = signed.Version; v.TxHash == "" && signed.Payouts[0].Step != treasury.SigningStands {
			return signed.Payouts[0].TransferOutcome, nil
		}
	}
	if v.TxHash == "" { // another process has signed meanwhile
		if v, _, err = t.Store.StandingTransfer(ctx, p.Ref); err != nil {
			return treasury.TransferOutcome{}, err
		}
	}
	return treasury.TransferOutcome{}, send(ctx, chain, v)
}

// waitForBatch returns the outcome of a payout whose transfer a round signs, together with others: see signNextBatch.
func waitForBatch(p checkout.Payout) (treasury.TransferOutcome, error) {
	if p.Hold != "" && p.NextActionAt != nil && p.NextActionAt.After(time.Now()) {
		return treasury.TransferOutcome{Held: p.Hold}, nil
	}
	return treasury.TransferOutcome{}, treasury.ErrAwaitsBatch
}

// signPayout checks, prices and signs the transfer of a payout. The result has no version when the facts
// under the lock of the account hold the payout or end it.
func (t *Treasury) signPayout(
	ctx context.Context, chain treasury.Chain, p checkout.Payout,
) (storage.SigningResult, error) {
	priced, err := t.price(ctx, chain, p)
	if err != nil {
		return storage.SigningResult{}, err
	}
	all := []pricedPayout{priced}
	plan, err := t.plan(ctx, chain, all, nil)
	if err != nil {
		return storage.SigningResult{}, err
	}
	now, err := chain.Snapshot(ctx)
	if err != nil {
		return storage.SigningResult{}, fmt.Errorf("read the account: %w", err)
	}
	account, err := t.Store.OpenTreasury(ctx, t.Mode, chain.Account(), now)
	if err != nil {
		return storage.SigningResult{}, err
	}
	return t.Store.SignTransfer(ctx, t.order(chain, account.ID, now, plan, all))
}

func (t *Treasury) order(
	chain treasury.Chain, accountID string, now treasury.AccountSnapshot, plan treasury.TransferPlan, all []pricedPayout,
) storage.SigningOrder {
	o := storage.SigningOrder{AccountID: accountID, Plan: plan, Chain: now, Sign: chain.Sign,
		Limits: t.Limits, Delay: t.Delay, Patience: t.patience()}
	for _, p := range all {
		o.Payouts = append(o.Payouts, p.PricedPayout)
	}
	return o
}

// send gives a stored version to the network. It returns ErrNotTaken unless a node has it.
func send(ctx context.Context, chain treasury.Chain, v treasury.TransferVersion) error {
	if chain.Send(ctx, v) == nil {
		return nil
	}
	// A refused transaction may be in the pool, or mined: only its state tells.
	seen, err := chain.Look(ctx, []treasury.TransferVersion{v})
	if err != nil {
		return fmt.Errorf("look at a transfer: %w", err)
	}
	if seen.State == treasury.TransferStateUnknown {
		return ErrNotTaken
	}
	return nil
}

// putOff holds or fails the payout, by the error of its transfer. It returns any other error.
func (t *Treasury) putOff(ctx context.Context, p checkout.Payout, why error) (out treasury.TransferOutcome, err error) {
	var (
		held    checkout.HeldError
		refused refusedError
	)
	switch {
	case errors.As(why, &held):
		slog.WarnContext(ctx, "payout on hold", "payout_id", p.ID, "mode", p.Mode, "hold", held.Why, "error", why)
		out, err = t.Payouts.HoldPayout(ctx, p, held.Why, t.patience())
	case errors.As(why, &refused):
		out, err = t.Payouts.RefusePayout(ctx, p, refused.failure, refused.found...)
	default:
		return out, why
	}
	if err == nil && out == (treasury.TransferOutcome{}) {
		err = ErrNotTaken // another process signed meanwhile: a repeat sends its transfer
	}
	return out, err
}

// refusedError is why nothing may ever be signed for a payout. found has the details for operators.
type refusedError struct {
	failure checkout.PayoutFailure
	found   []books.Finding
}

func (e refusedError) Error() string { return e.failure.Message() }

// check returns a refusedError when nothing may be paid to the destination. The merchant of a sanctioned destination
// sees an invalid address, and the finding gives operators the reason.
func (t *Treasury) check(ctx context.Context, chain treasury.Chain, p checkout.Payout) error {
	sanctioned := t.Sanctioned.Has(p.Destination)
	if !sanctioned {
		var err error
		if sanctioned, err = chain.Sanctioned(ctx, p.Destination); err != nil {
			return fmt.Errorf("ask for sanctions: %w", err)
		}
	}
	if sanctioned {
		return refusedError{checkout.PayoutInvalidAddress, []books.Finding{{
			Mode: p.Mode, Kind: books.FindingPayoutSanctioned, Subject: p.ID,
			Detail: "The destination " + p.Destination + " is a sanctioned address. Nothing was signed.",
		}}}
	}

	why, err := chain.Check(ctx, p.Currency, p.Destination)
	if err != nil {
		return fmt.Errorf("check the destination: %w", err)
	}
	if why != "" {
		return refusedError{failure: why}
	}
	return nil
}

func (t *Treasury) patience() time.Duration { return cmp.Or(t.Patience, 24*time.Hour) }

func (t *Treasury) stuckAfter() time.Duration { return cmp.Or(t.StuckAfter, 2*time.Minute) }

// Accounts returns the treasury's accounts, oldest first. An account is listed once it was used or followed.
func (t *Treasury) Accounts(ctx context.Context) ([]storage.TreasuryAccount, error) {
	return t.Store.TreasuryAccounts(ctx, t.Mode)
}

// ErrOtherSettings: the settings have no chain for the account, or another account of it.
var ErrOtherSettings = errors.New("the settings are not those of the account")

// account returns an account of the mode with its chain. It returns checkout.ErrNotFound, and ErrOtherSettings.
func (t *Treasury) account(ctx context.Context, id string) (storage.TreasuryAccount, treasury.Chain, error) {
	accounts, err := t.Accounts(ctx)
	i := slices.IndexFunc(accounts, func(a storage.TreasuryAccount) bool { return a.ID == id })
	if i < 0 {
		return storage.TreasuryAccount{}, nil, cmp.Or(err, checkout.ErrNotFound)
	}
	a := accounts[i]
	chain := t.Chains[a.Network]
	if chain == nil || chain.Account() != a.Account {
		return a, nil, fmt.Errorf("%w: it is %s on %s", ErrOtherSettings, a.Address, a.ChainID)
	}
	return a, chain, nil
}
