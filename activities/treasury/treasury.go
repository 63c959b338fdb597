// Package treasury sends payouts from the accounts of the service, and follows them until they are
// final on their chains. PostgreSQL holds every signed transfer before a network sees it. No answer
// of a chain decides anything: the state of the chain does.
package treasury

import (
	"context"
	"errors"
	"fmt"
	"time"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
)

// Treasury pays the payouts of one mode. Any number of processes may do so at once, with the same
// accounts.
type Treasury struct {
	Store      *storage.Store
	Mode       checkout.Mode
	Chains     map[string]checkout.Chain // by network
	Rates      checkout.RateSource
	Limits     checkout.PayoutLimits
	Patience   time.Duration // how long a payout stays on hold before it fails; 0 means 24 hours
	StuckAfter time.Duration // how long the network may leave a version alone before its fee is raised; 0 means 2 minutes

	Delay      time.Duration        // from a payment to the signature of its payout
	Sanctioned checkout.AddressList // nothing is paid there
}

const (
	defaultPatience   = 24 * time.Hour
	defaultStuckAfter = 2 * time.Minute
)

// Errors of Transfer. The payout stays pending, and the call may be repeated.
var (
	// ErrNoChain: no chain is configured for the payout's network and mode.
	ErrNoChain = errors.New("no chain is configured for this network and mode")
	// ErrNotTaken: the transfer is stored, and no node has it yet. Sync sends it again too.
	ErrNotTaken = errors.New("the network has not taken the transfer yet")
)

// Transfer sends a pending payout, which is as it was read before. The zero outcome means that the network
// has the transfer, now or from an earlier call. Any error means that the outcome is unknown; a repeat is
// safe and signs no second transfer. It returns checkout.ErrConflict when the payout changed meanwhile,
// ErrNoChain and ErrNotTaken, among others.
func (t *Treasury) Transfer(ctx context.Context, p storage.PayoutToSend) (checkout.TransferOutcome, error) {
	out, err := t.transfer(ctx, p.Payout)
	out.Generation = p.Generation
	return out, err
}

func (t *Treasury) transfer(
	ctx context.Context, p checkout.Payout,
) (checkout.TransferOutcome, error) {
	if p.Status != checkout.PayoutPending || p.Failure != "" {
		return checkout.TransferOutcome{Failure: p.Failure}, nil
	}

	chain := t.Chains[p.Network]
	if chain == nil || p.Mode != t.Mode {
		return checkout.TransferOutcome{}, ErrNoChain
	}

	v, stands, err := t.Store.StandingTransfer(ctx, p.Ref)
	if err != nil {
		return checkout.TransferOutcome{}, err
	}
	if !stands {
		signed, err := t.sign(ctx, chain, p)
		if err != nil || signed.Version.TxHash == "" {
			return signed.TransferOutcome, err
		}
		v = signed.Version
	}
	return checkout.TransferOutcome{}, send(ctx, chain, v)
}

// send gives a stored version to the network. It returns ErrNotTaken unless a node has it.
func send(ctx context.Context, chain checkout.Chain, v checkout.TransferVersion) error {
	if chain.Send(ctx, v) == nil {
		return nil
	}
	// A refused transaction may be in the pool, or mined: only its state tells.
	seen, err := chain.Look(ctx, v.Nonce, []checkout.TransferVersion{v})
	if err != nil {
		return fmt.Errorf("look at a transfer: %w", err)
	}
	if seen.State == checkout.SightingUnknown {
		return ErrNotTaken
	}
	return nil
}

// sign checks, prices and signs the transfer of a payout. The result has no version when the payout
// is held or failed.
func (t *Treasury) sign(
	ctx context.Context, chain checkout.Chain, p checkout.Payout,
) (storage.Signed, error) {
	sanctioned, err := t.sanctioned(ctx, chain, p.Destination)
	if held := holdFor(err); held != "" {
		return t.hold(ctx, p, held)
	}
	if err != nil {
		return storage.Signed{}, fmt.Errorf("ask for sanctions: %w", err)
	}
	if sanctioned {
		return t.refuseSanctioned(ctx, p)
	}

	why, err := chain.Check(ctx, p.Currency, p.Destination)
	if held := holdFor(err); held != "" {
		return t.hold(ctx, p, held)
	}
	if err != nil {
		return storage.Signed{}, fmt.Errorf("check the destination: %w", err)
	}
	if why != "" {
		out, err := t.Store.RefusePayout(ctx, p, why)
		return unsigned(out, err)
	}

	order, held, err := t.price(ctx, chain, p)
	if err != nil {
		return storage.Signed{}, err
	}
	if held != "" {
		return t.hold(ctx, p, held)
	}

	now, err := chain.Standing(ctx)
	if err != nil {
		return storage.Signed{}, fmt.Errorf("read the account: %w", err)
	}
	account, err := t.Store.OpenTreasury(ctx, t.Mode, chain.Account(), now)
	if err != nil {
		return storage.Signed{}, err
	}

	var refused error
	order.AccountID, order.Chain = account.ID, now
	order.Sign = func(ctx context.Context, nonce uint64) (v checkout.TransferVersion, err error) {
		v, refused = chain.Sign(ctx, order.Plan, nonce)
		return v, refused
	}
	signed, err := t.Store.SignTransfer(ctx, order)
	if refused != nil && ctx.Err() == nil {
		return t.hold(ctx, p, checkout.HoldSigner)
	}
	return signed, err
}

// sanctioned reports whether the destination is on the list of the settings or of the chain.
func (t *Treasury) sanctioned(ctx context.Context, chain checkout.Chain, destination string) (bool, error) {
	if t.Sanctioned.Has(destination) {
		return true, nil
	}
	return chain.Sanctioned(ctx, destination)
}

// refuseSanctioned fails the payout. Its merchant reads that the address is not valid, and the finding
// tells operators why.
func (t *Treasury) refuseSanctioned(ctx context.Context, p checkout.Payout) (storage.Signed, error) {
	out, err := t.Store.RefusePayout(ctx, p, checkout.PayoutInvalidAddress, checkout.Finding{
		Mode: p.Mode, Kind: checkout.FindingPayoutSanctioned, Subject: p.ID,
		Detail: "The destination " + p.Destination + " is a sanctioned address. Nothing was signed.",
	})
	return unsigned(out, err)
}

func (t *Treasury) hold(
	ctx context.Context, p checkout.Payout, why checkout.PayoutHold,
) (storage.Signed, error) {
	out, err := t.Store.HoldPayout(ctx, p, why, t.patience())
	return unsigned(out, err)
}

// unsigned is the result when this call signed nothing. Without a hold and a failure, another process
// signed meanwhile: a repeat of the call sends its transfer.
func unsigned(out checkout.TransferOutcome, err error) (storage.Signed, error) {
	if err == nil && out.Held == "" && out.Failure == "" {
		err = ErrNotTaken
	}
	return storage.Signed{TransferOutcome: out}, err
}

func (t *Treasury) patience() time.Duration {
	if t.Patience == 0 {
		return defaultPatience
	}
	return t.Patience
}

func (t *Treasury) stuckAfter() time.Duration {
	if t.StuckAfter == 0 {
		return defaultStuckAfter
	}
	return t.StuckAfter
}

// Accounts returns the treasury's accounts, oldest first. An account is listed once it was used or
// followed.
func (t *Treasury) Accounts(ctx context.Context) ([]storage.TreasuryAccount, error) {
	return t.Store.TreasuryAccounts(ctx, t.Mode)
}

// account returns one of the accounts with its chain. It returns checkout.ErrNotFound.
func (t *Treasury) account(ctx context.Context, id string) (storage.TreasuryAccount, checkout.Chain, error) {
	accounts, err := t.Accounts(ctx)
	for _, a := range accounts {
		chain := t.Chains[a.Network]
		if a.ID == id && chain != nil && chain.Account() == a.TreasuryAccount {
			return a, chain, nil
		}
	}
	return storage.TreasuryAccount{}, nil, errors.Join(err, checkout.ErrNotFound)
}
