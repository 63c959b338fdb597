package treasury

import (
	"context"
	"errors"
	"fmt"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/treasury"
)

// signNextBatch signs one transfer for the waiting payouts, once they fill it or the first has waited long enough. A
// payout that cannot be signed at present does not delay the others. On a chain with one payout per transfer, the
// runs of the payouts sign.
func (r *round) signNextBatch(ctx context.Context) error {
	batch := r.chain.Batch()
	if batch.Most == 1 {
		return nil
	}
	waiting, waited, err := r.Payouts.PayoutsToBatch(ctx, r.account, batch.Most)
	if err != nil || len(waiting) == 0 || len(waiting) < batch.Most && waited < batch.Wait {
		return err
	}
	var (
		all    []pricedPayout
		faults []error
	)
	for _, p := range waiting {
		priced, err := r.price(ctx, r.chain, p)
		if err != nil {
			faults = append(faults, r.leaveUnsigned(ctx, p, err))
			continue
		}
		all = append(all, priced)
	}
	for len(all) > 0 {
		var signed treasury.TransferVersion
		if all, signed, err = r.signTransfer(ctx, all); err != nil {
			return errors.Join(append(faults, err)...)
		}
		if signed.TxHash != "" {
			r.result.Signed = len(all)
			_ = r.chain.Send(ctx, signed) // the next round looks whether it arrived
			break
		}
	}
	return errors.Join(faults...)
}

// signTransfer signs one transfer that pays all these payouts. Without a version it returns the payouts that may be
// planned again.
func (r *round) signTransfer(
	ctx context.Context, all []pricedPayout,
) (left []pricedPayout, signed treasury.TransferVersion, err error) {
	taken, err := r.Store.TakenUnits(ctx, r.account.ID)
	if err != nil {
		return nil, signed, err
	}
	var (
		now treasury.AccountSnapshot
		got storage.SigningResult
	)
	plan, err := r.plan(ctx, r.chain, all, taken)
	if err == nil { // that of the round is old: a transfer may have been sent since whose row PostgreSQL lost
		now, err = r.chain.Snapshot(ctx)
	}
	if err == nil {
		got, err = r.Store.SignTransfer(ctx, r.order(r.chain, r.account.ID, now, plan, all))
	}
	if err != nil {
		left, err = r.putOffFaulty(ctx, all, err)
		return left, signed, err
	}
	if got.Version.TxHash != "" {
		return all, got.Version, nil
	}
	for i, p := range got.Payouts {
		if p.Step == treasury.SigningGo {
			left = append(left, all[i])
		}
	}
	return left, signed, nil
}

// putOffFaulty puts the payouts off that an error is about, and returns the others: none when it is about all of them.
func (r *round) putOffFaulty(ctx context.Context, all []pricedPayout, why error) (left []pricedPayout, err error) {
	if errors.Is(why, checkout.ErrConflict) || errors.Is(why, storage.ErrNotCompared) {
		return nil, nil // another process was faster, or a block has come: the next round looks again
	}
	some, faults := treasury.PayoutErrors{}, []error(nil)
	about := errors.As(why, &some)
	for _, p := range all {
		switch own := some[p.ID]; {
		case !about:
			faults = append(faults, r.leaveUnsigned(ctx, p.Payout, why))
		case own != nil:
			faults = append(faults, r.leaveUnsigned(ctx, p.Payout, own))
		default:
			left = append(left, p)
		}
	}
	if len(left) == len(all) {
		return nil, fmt.Errorf("the chain refuses other payouts than it was asked for: %w", why)
	}
	return left, errors.Join(faults...)
}

// leaveUnsigned holds or fails a payout that cannot be signed. Its run notifies the merchant.
func (r *round) leaveUnsigned(ctx context.Context, p checkout.Payout, why error) error {
	_, err := r.putOff(ctx, p, why)
	if errors.Is(err, ErrNotTaken) {
		return nil
	}
	return err
}
