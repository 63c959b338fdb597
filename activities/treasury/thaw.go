package treasury

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/treasury"
)

// ErrUnrecovered: a transaction may have paid a payout that could be signed after the thaw.
var ErrUnrecovered = errors.New("a transaction that no transfer explains may have paid a payout")

// ThawOrder requests signatures after a freeze. It has the findings of a person about lost payments.
type ThawOrder struct {
	AccountID string
	Retire    bool                // it is out of use: it stays frozen, and others of its chain may sign
	Losses    []string            // payments that paid no payout, as treasury.Outflow.Payment names them
	Paid      []string            // payouts that were paid by money that is missing
	Missing   money.Purse         // what is missing besides, which paid no payout
	By        merchant.AuditEntry // of each payout in Paid
}

// Thaw lets an account sign again. A person must have explained what froze it: the slots are then taken as they
// are. It first writes what the chain shows: outflows of nobody, and the ends of transfers. It refuses while a
// payout could be paid a second time: when a transaction may have paid one, as after the restore of an old
// backup, where Recover comes first; and when money is missing that the order does not name.
//
// An order to retire the account looks at the same, and leaves it frozen.
//
// It returns checkout.ErrNotFound, ErrOtherSettings, ErrNoPayment, ErrUnrecovered, and the errors of
// storage.CheckThaw and storage.Thaw. With checkout.ErrPaymentRefunded it opens the finding that the customer
// and the merchant both have the money.
func (t *Treasury) Thaw(ctx context.Context, o ThawOrder) error {
	account, chain, err := t.account(ctx, o.AccountID)
	if err != nil {
		return err
	}
	// The balances are older than the outflows that are read next, so these explain them.
	now, err := chain.Snapshot(ctx)
	if err != nil {
		return fmt.Errorf("read the account: %w", err)
	}
	if err := t.Store.CheckThaw(ctx, account, o.Retire, now); err != nil {
		return err
	}
	r := recovery{Treasury: t, RecoveryOrder: RecoveryOrder{Losses: o.Losses}, chain: chain, account: account}
	if err := r.noteAll(ctx, now.FinalHeight); err != nil {
		return err
	}
	if _, err := r.requireExplained(ctx); err != nil {
		return err
	}
	ended, err := (&round{Treasury: t, chain: chain, account: account, now: now}).endFinal(ctx)
	if err != nil {
		return err
	}
	// Once more: a payout whose transfer has ended without a payment may have been retried and paid in the lost time.
	foreign, err := r.requireExplained(ctx)
	if err != nil {
		return err
	}
	// A person who stops the command must know that nothing has changed.
	err = t.Store.Thaw(context.WithoutCancel(ctx), storage.ThawOrder{
		AccountID: o.AccountID, Retire: o.Retire, Now: now, Paid: o.Paid, Losses: o.Missing, Foreign: foreign,
		Burnt: burntBy(ended), By: o.By})
	if errors.Is(err, checkout.ErrPaymentRefunded) {
		err = errors.Join(err, t.findPaid(ctx, o.Paid))
	}
	return err
}

// findPaid opens a finding for each payout whose payment is refunded, and that missing money paid.
func (t *Treasury) findPaid(ctx context.Context, payouts []string) error {
	for _, id := range payouts {
		p, err := t.Payouts.AnyPayout(ctx, id)
		if err != nil {
			return err
		}
		if _, err := t.Store.FindPaid(ctx, p.Ref, "missing money paid "+id); err != nil {
			return err
		}
	}
	return nil
}

// endFinal writes the ends of the transfers whose slot is used up, and no other. It returns them. While money is
// missing, those that paid nothing stay live.
func (r *round) endFinal(ctx context.Context) (ended []finalTransfer, err error) {
	live, err := r.Store.LiveTransfers(ctx, r.account.ID, maxLive)
	if err != nil {
		return nil, err
	}
	for _, transfer := range live {
		if !r.now.Used(transfer.Slot) {
			continue
		}
		seen, err := r.chain.Look(ctx, transfer.Versions)
		if err != nil {
			return nil, fmt.Errorf("look at %s: %w", transfer.ID, err)
		}
		if seen.State.Final() {
			ended = append(ended, finalTransfer{transfer, seen})
		}
	}
	return ended, r.endTransfers(ctx, ended)
}

// noteAll books the outflows up to the block last. What Thaw books as missing would otherwise be
// booked once more when the next round sees the outflow.
func (r *recovery) noteAll(ctx context.Context, last uint64) error {
	for from := r.account.NextBlock; ; {
		out, err := r.chain.Outflows(ctx, from, last)
		if err != nil {
			return fmt.Errorf("read the outflows: %w", err)
		}
		if _, err := r.Store.BookOutflows(ctx, r.account.ID, from, out); err != nil || out.Next <= from {
			return err
		}
		from = out.Next
	}
}

// requireExplained returns ErrUnrecovered when an outflow outside the losses may have paid a payout. It returns the
// units that the outflows used.
func (r *recovery) requireExplained(ctx context.Context) (units treasury.Slot, err error) {
	unexplained, err := r.readUnexplained(ctx, &RecoveryResult{})
	if err != nil {
		return nil, err
	}
	for _, outflow := range unexplained {
		units = append(units, outflow.Slot...)
		if slices.Contains(r.Losses, outflow.Payment()) {
			continue
		}
		paid, err := r.mayHavePaid(ctx, outflow)
		if err != nil {
			return nil, err
		}
		if paid != "" {
			return nil, fmt.Errorf("%w: %s, by %s", ErrUnrecovered, paid, outflow.Payment())
		}
	}
	return units, nil
}

// mayHavePaid returns the first payout or transfer that Recover could assign the outflow to, whatever its amount, or a
// payment whose payout is not made yet; "" when there is none. An outflow that moved nothing paid nobody.
func (r *recovery) mayHavePaid(ctx context.Context, o treasury.Outflow) (string, error) {
	if !o.Moved() {
		return "", nil
	}
	taken, err := r.Store.TransfersWith(ctx, r.account.ID, o.Slot)
	if err != nil {
		return "", err
	}
	for _, transfer := range taken {
		if transfer.Status == storage.TransferLive && pays(transfer, o) {
			return transfer.ID, nil
		}
	}
	undecided, err := r.Store.UndecidedPayment(ctx, r.account, o) // before the payouts: it may become one meanwhile
	if err != nil {
		return "", err
	}
	payouts, err := r.Store.PayoutsTo(ctx, r.account, o)
	if len(payouts) > 0 {
		return payouts[0].ID, err
	}
	return undecided, err
}
