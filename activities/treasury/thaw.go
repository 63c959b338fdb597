package treasury

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
)

// Errors of Thaw.
var (
	// ErrNotFinal: the chain has transactions of the account that no transfer explains and that are not final.
	ErrNotFinal = errors.New("transactions that no transfer explains are not final yet")
	// ErrUnrecovered: a transaction may have paid a payout that could be signed after the thaw.
	ErrUnrecovered = errors.New("a transaction that no transfer explains may have paid a payout")
)

// ThawOrder asks for signatures after a freeze.
type ThawOrder struct {
	AccountID string
	Losses    []string // transactions that paid no payout: a person has looked
}

// Thaw lets an account sign again. A person must have explained what froze it: the nonces and the
// balances are then taken as they are, and what is missing is booked to suspense. It refuses while a
// payout could be paid a second time, as after the restore of an old backup: Recover comes first.
//
// It returns checkout.ErrNotFound, ErrNotFinal and ErrUnrecovered.
func (t *Treasury) Thaw(ctx context.Context, o ThawOrder) error {
	account, chain, err := t.account(ctx, o.AccountID)
	if err != nil {
		return err
	}
	// The balances are older than the outflows that are read next, so these explain them.
	now, err := chain.Standing(ctx)
	if err != nil {
		return fmt.Errorf("read the account: %w", err)
	}
	if now.NextNonce > max(account.NextNonce, now.FinalNonce) {
		return ErrNotFinal
	}
	r := recovery{Treasury: t, chain: chain, account: account}
	if err := r.noteAll(ctx); err != nil {
		return err
	}
	if err := r.requireExplained(ctx, o.Losses); err != nil {
		return err
	}
	return t.Store.Thaw(ctx, o.AccountID, now)
}

// noteAll books the outflows up to the last final block. What Thaw books as missing would otherwise be
// booked once more when the next round sees the outflow.
func (r *recovery) noteAll(ctx context.Context) error {
	for from := r.account.NextBlock; ; {
		out, err := r.chain.Outflows(ctx, from)
		if err != nil {
			return fmt.Errorf("read the outflows: %w", err)
		}
		if _, err := r.Store.NoteOutflows(ctx, r.account.ID, from, out); err != nil || out.Next <= from {
			return err
		}
		from = out.Next
	}
}

// requireExplained returns ErrUnrecovered when an outflow, which is none of losses, may have paid a payout.
func (r *recovery) requireExplained(ctx context.Context, losses []string) error {
	strange, err := r.read(ctx, &RecoveryReport{})
	if err != nil {
		return err
	}
	for _, outflow := range strange {
		if slices.Contains(losses, outflow.TxHash) {
			continue
		}
		paid, err := r.mayHavePaid(ctx, outflow)
		if err != nil {
			return err
		}
		if paid != "" {
			return fmt.Errorf("%w: %s, by %s", ErrUnrecovered, paid, outflow.TxHash)
		}
	}
	return nil
}

// mayHavePaid returns the first payout or transfer that Recover could give the outflow to, whatever its
// amount is; "" when there is none.
func (r *recovery) mayHavePaid(ctx context.Context, o checkout.Outflow) (string, error) {
	taken, err := r.Store.TransfersOf(ctx, r.account.ID, o.Nonce)
	if err != nil {
		return "", err
	}
	for _, transfer := range taken {
		if transfer.Status == storage.TransferLive && pays(transfer, o) {
			return transfer.ID, nil
		}
	}
	payouts, err := r.Store.PayoutsTo(ctx, r.account, o)
	if err != nil || len(payouts) == 0 {
		return "", err
	}
	return payouts[0].ID, nil
}
