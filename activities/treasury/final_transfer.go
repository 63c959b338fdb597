package treasury

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/treasury"
)

// finalTransfer is a transfer with a final state.
type finalTransfer struct {
	storage.Transfer
	seen treasury.TransferSnapshot
}

// endTransfers writes final states. Transfers that paid come first, so that the balances show whether the others did.
func (r *round) endTransfers(ctx context.Context, all []finalTransfer) error {
	var faults []error
	burnt := burntBy(all)
	for _, confirmed := range []bool{true, false} {
		for _, t := range all {
			if (t.seen.State == treasury.TransferStateConfirmed) == confirmed {
				faults = append(faults, r.endTransfer(ctx, t, burnt))
			}
		}
	}
	return errors.Join(faults...)
}

// burntBy returns the network's fees for the transfers that paid nothing.
func burntBy(all []finalTransfer) (burnt []storage.BurntGas) {
	for _, t := range all {
		if t.seen.State != treasury.TransferStateConfirmed {
			burnt = append(burnt, storage.BurntGas{TransferID: t.ID, Cost: t.seen.Cost})
		}
	}
	return burnt
}

// endTransfer writes a final state. A receipt alone proves nothing: nodes show receipts of blocks that a reorganization
// has removed. So the slot must be used up at the final block of the round too. A payout whose transfer paid nobody may
// be sent again, so the outflows and the balances must agree as well: a node may have lost a block and kept its state.
// burnt are the fees of the transfers that paid nothing.
func (r *round) endTransfer(ctx context.Context, t finalTransfer, burnt []storage.BurntGas) error {
	transfer, seen := t.Transfer, t.seen
	if !r.now.Used(transfer.Slot) {
		return nil // the next round knows more
	}
	if seen.State != treasury.TransferStateConfirmed {
		paid, err := r.showsPayment(ctx, transfer)
		if err != nil {
			return err
		}
		if paid {
			r.alarm("the chain says that %s is %s, and shows its payment", transfer.ID, seen.State)
			return nil
		}
	}

	failed, ended, err := r.Store.EndTransfer(ctx, transfer, seen, r.now, burnt...)
	if missing, ok := errors.AsType[storage.MissingError](err); ok {
		r.alarm("the chain says that %s is %s, and %v: nothing is decided", transfer.ID, seen.State, missing)
		return nil
	}
	if err != nil || !ended {
		return err
	}
	r.result.Failed = append(r.result.Failed, failed...)
	switch seen.State {
	case treasury.TransferStateConfirmed:
		r.result.Confirmed++
	case treasury.TransferStateReverted:
		r.result.Reverted++
		r.alarm("%s was mined, and paid nothing", transfer.ID)
	case treasury.TransferStateCanceled:
		r.result.Canceled++
	case treasury.TransferStateDead:
		r.result.Dead++
		r.alarm("%s of %s was used by another transaction", transfer.Slot.Name(), transfer.ID)
	}
	return nil
}

// deepestReorganization is more blocks than any chain of ours goes back.
const deepestReorganization = 128

// showsPayment reports whether the chain's outflows include the payment of a version of the transfer.
func (r *round) showsPayment(ctx context.Context, transfer storage.Transfer) (bool, error) {
	from := transfer.Base - min(transfer.Base, deepestReorganization)
	for {
		out, err := r.chain.Outflows(ctx, from, r.now.FinalHeight)
		if err != nil {
			return false, fmt.Errorf("read the outflows: %w", err)
		}
		if slices.ContainsFunc(out.All, func(o treasury.Outflow) bool { return pays(transfer, o) }) {
			return true, nil
		}
		if out.Next <= from {
			return false, nil
		}
		from = out.Next
	}
}

// pays reports whether the outflow is a payment of the transfer: by a version of it, or by another transaction with its
// slot that pays the same. After the restore of an old backup PostgreSQL lacks the versions that were signed since. A
// version that cancels pays nobody.
func pays(transfer storage.Transfer, o treasury.Outflow) bool {
	return o.Moved() && slices.ContainsFunc(transfer.Versions, func(v treasury.TransferVersion) bool {
		if v.Cancels || v.Currency() != o.Amount.Currency() {
			return false
		}
		return v.TxHash == o.TxHash || o.Slot.Shares(transfer.Slot) && slices.ContainsFunc(v.Outputs,
			func(pays treasury.TransferOutput) bool { return strings.EqualFold(pays.Destination, o.Destination) })
	})
}
