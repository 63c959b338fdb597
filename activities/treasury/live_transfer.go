package treasury

import (
	"context"
	"errors"
	"fmt"
	"time"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/treasury"
)

// followTransfers looks at every live transfer. Where slots have an order, the first one that is in no block
// blocks all others. Slow nodes may take half of the round's time. Then the rest stays as it is, and what was seen is
// written: else the next round would look at the same ones, and end none of them either.
func (r *round) followTransfers(ctx context.Context) error {
	live, err := r.Store.LiveTransfers(ctx, r.account.ID, maxLive)
	if err != nil {
		return err
	}
	r.result.Live = len(live)
	var (
		faults []error
		ended  []finalTransfer
	)
	blocked := false
	looking, stop := halfOf(ctx)
	defer stop()
	for i, transfer := range live {
		_, ordered := transfer.Slot.Number()
		seen, err := r.chain.Look(looking, transfer.Versions)
		if err != nil && looking.Err() != nil {
			if err := ctx.Err(); err != nil { // a worker that stops says nothing about its nodes
				return err
			}
			r.alarm("the nodes are slow: the round looked at %d of %d transfers", i, len(live))
			break
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("look at %s: %w", transfer.ID, err))
			blocked = ordered // it may be the one that blocks: nobody after it is bumped
			continue
		}
		switch {
		case seen.State.Final():
			ended = append(ended, finalTransfer{transfer, seen})
		case seen.State != treasury.TransferStateMined:
			err = r.pushTransfer(ctx, transfer, seen, !blocked)
			blocked = ordered
		}
		if err != nil {
			faults = append(faults, err)
		}
	}
	return errors.Join(errors.Join(faults...), r.endTransfers(ctx, ended))
}

// halfOf returns a context that ends after half of the time that ctx has left.
func halfOf(ctx context.Context) (context.Context, context.CancelFunc) {
	end, ends := ctx.Deadline()
	if !ends {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Until(end)/2)
}

// pushTransfer sends the newest version again when no node knows one. It raises the fee when the transfer
// blocks the others and nothing has happened for too long. A transfer that an operator cancels gets a
// version that pays nobody at once.
func (r *round) pushTransfer(
	ctx context.Context, transfer storage.Transfer, seen treasury.TransferSnapshot, blocks bool,
) error {
	if transfer.Canceling && !transfer.Newest().Cancels {
		return r.addVersion(ctx, transfer, r.chain.Cancel)
	}
	if seen.State == treasury.TransferStateUnknown {
		_ = r.chain.Send(ctx, transfer.Newest()) // the next round looks whether it arrived
		r.result.Resent++
	}
	if !blocks || transfer.Unchanged < r.stuckAfter() {
		return nil
	}
	return r.addVersion(ctx, transfer, r.chain.Bump)
}

// addVersion signs the next version of a transfer, as planned by price, and sends it.
func (r *round) addVersion(
	ctx context.Context, transfer storage.Transfer,
	price func(context.Context, treasury.TransferVersion) (treasury.TransferPlan, error),
) error {
	plan, err := price(ctx, transfer.Newest())
	if errors.Is(err, treasury.ErrNotStuck) {
		return nil
	}
	if errors.Is(err, treasury.ErrFeeTooHigh) {
		r.alarm("%s blocks the account: %v", transfer.ID, treasury.ErrFeeTooHigh)
		return nil
	}
	if err != nil {
		return fmt.Errorf("price a version of %s: %w", transfer.ID, err)
	}
	v, added, err := r.Store.AddVersion(ctx, transfer, plan, r.chain.Sign)
	if errors.Is(err, storage.ErrFrozen) {
		r.alarm("%s is stuck, and its account is frozen", transfer.ID)
		return nil
	}
	if err != nil || !added {
		return err
	}
	r.result.Bumped++
	_ = r.chain.Send(ctx, v) // the next round looks whether it arrived
	return nil
}
