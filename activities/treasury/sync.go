package treasury

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/treasury"
)

// SyncResult is the result of one round, ordered by network.
type SyncResult struct {
	Accounts []AccountResult `json:"accounts"`
}

// AccountResult is the report of a round about one account.
type AccountResult struct {
	ID        string `json:"id"`
	Network   string `json:"network"`
	Live      int    `json:"live"`             // transfers that are not final
	Resent    int    `json:"resent"`           // no node knew them
	Bumped    int    `json:"bumped"`           // got another version
	Signed    int    `json:"signed,omitempty"` // payouts that got a transfer together
	Confirmed int    `json:"confirmed"`        //
	Reopened  int    `json:"reopened"`         // a reorganization undid their end
	Reverted  int    `json:"reverted"`
	Dead      int    `json:"dead"`
	Canceled  int    `json:"canceled"`
	Frozen    string `json:"frozen,omitempty"` // why the account is frozen since this round
	// Alarms are sentences for an operator.
	Alarms []string `json:"alarms,omitempty"`
	// Failed lists payouts that failed after they were signed. Their deliveries must be started.
	Failed []storage.PayoutFollowUp `json:"failed,omitempty"`
	// Short lists the missing amounts of the account, in smallest units.
	Short map[money.PayoutCurrency]string `json:"short,omitempty"`
}

// maxLive is the number of transfers that one round looks at. The oldest come first: the others
// cannot be mined before them.
const maxLive = 500

// Sync is one round of following. It looks at the live transfers of every chain, oldest first, sends the bytes again
// when no node knows them, raises the fee of a transfer that blocks the others, writes what is final, and freezes an
// account when a used slot or an outflow is not ours. Then it signs the next batch, on a chain that has batches. It is
// safe to run twice at once. With an error the result holds what was done; a repeat does the rest.
func (t *Treasury) Sync(ctx context.Context) (SyncResult, error) {
	networks := slices.Sorted(maps.Keys(t.Chains))
	accounts, faults := make([]AccountResult, len(networks)), make([]error, len(networks))
	var rounds sync.WaitGroup // a slow node delays no other chain
	for i, network := range networks {
		rounds.Go(func() {
			r := round{Treasury: t, chain: t.Chains[network], result: AccountResult{Network: network}}
			if err := r.run(ctx); err != nil {
				faults[i] = fmt.Errorf("%s: %w", network, err)
			}
			accounts[i] = r.result
		})
	}
	rounds.Wait()
	return SyncResult{Accounts: accounts}, errors.Join(faults...)
}

// round is one round for one account.
type round struct {
	*Treasury
	chain   treasury.Chain
	now     treasury.AccountSnapshot
	account storage.TreasuryAccount
	result  AccountResult
}

func (r *round) run(ctx context.Context) error {
	if err := r.runSteps(ctx, r.snapshot, r.open, r.checkForeign, r.checkOutflows, r.reopen); err != nil {
		return err
	}
	// A transfer that cannot be followed stops neither other payouts nor the comparison of the balances.
	return errors.Join(r.followTransfers(ctx), r.signNextBatch(ctx), r.checkBalances(ctx))
}

func (r *round) runSteps(ctx context.Context, steps ...func(context.Context) error) error {
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Compare compares the slots in use and the outflows of every chain with the transfers, as a round does first. It sends
// and ends nothing, and opens no account: a command may have other settings than the workers. An account of which the
// transfers lack something is frozen. It returns storage.ErrNotCompared for an account that no round has opened.
func (t *Treasury) Compare(ctx context.Context) error {
	for network, chain := range t.Chains {
		r := round{Treasury: t, chain: chain}
		if err := r.runSteps(ctx, r.snapshot, r.find, r.checkForeign, r.checkOutflows); err != nil {
			return fmt.Errorf("compare %s: %w", network, err)
		}
	}
	return nil
}

func (r *round) snapshot(ctx context.Context) (err error) {
	if r.now, err = r.chain.Snapshot(ctx); err != nil {
		err = fmt.Errorf("read the account: %w", err)
	}
	return err
}

func (r *round) open(ctx context.Context) (err error) {
	r.account, err = r.Store.OpenTreasury(ctx, r.Mode, r.chain.Account(), r.now)
	r.result.ID = r.account.ID
	return err
}

// find is open for an account that a round has opened.
func (r *round) find(ctx context.Context) (err error) {
	r.account, err = r.Store.TreasuryAccount(ctx, r.Mode, r.chain.Account())
	if errors.Is(err, checkout.ErrNotFound) {
		return fmt.Errorf("%w: no worker has followed %s", storage.ErrNotCompared, r.chain.Account().Address)
	}
	return err
}

func (r *round) checkForeign(ctx context.Context) error {
	why, err := r.Store.CheckForeign(ctx, r.account.ID, r.now)
	r.reportFreeze(why)
	return err
}

func (r *round) reportFreeze(why string) {
	if why != "" {
		r.result.Frozen = why
		r.alarm("the account is frozen: %s", why)
	}
}

func (r *round) alarm(format string, args ...any) {
	r.result.Alarms = append(r.result.Alarms, fmt.Sprintf(format, args...))
}

// maxRanges is the number of ranges of blocks that one round compares. After a long outage the next rounds do the rest.
const maxRanges = 20

func (r *round) checkOutflows(ctx context.Context) error {
	from := r.account.NextBlock
	for range maxRanges {
		out, err := r.chain.Outflows(ctx, from, r.now.FinalHeight)
		if err != nil {
			return fmt.Errorf("read the outflows: %w", err)
		}
		why, err := r.Store.BookOutflows(ctx, r.account.ID, from, out)
		r.reportFreeze(why)
		if err != nil {
			return err
		}
		if out.Next <= from {
			return r.Store.RecordComparison(ctx, r.account.ID, r.now)
		}
		from = out.Next
	}
	return nil
}

// reopen looks for transfers that have ended although their slot is free at the final block.
// A node that lags shows the same, so the transfer's own state decides.
func (r *round) reopen(ctx context.Context) error {
	undone, err := r.Store.UndoneTransfers(ctx, r.account.ID, r.now, maxLive)
	if err != nil {
		return err
	}
	for _, transfer := range undone {
		seen, err := r.chain.Look(ctx, transfer.Versions)
		if err != nil {
			return fmt.Errorf("look at %s: %w", transfer.ID, err)
		}
		if seen.State.Final() {
			continue
		}
		reopened, err := r.Store.ReopenTransfer(ctx, transfer)
		if err != nil {
			return err
		}
		if reopened {
			r.result.Reopened++
		}
		r.alarm("a reorganization undid the end of %s, which was %s", transfer.ID, transfer.Status)
	}
	return nil
}

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

// checkBalances compares the account's balances with the ledger.
func (r *round) checkBalances(ctx context.Context) error {
	got, err := r.Store.CompareBalances(ctx, r.account.ID, r.now)
	if err != nil {
		return err
	}
	r.result.Short = got.Short
	if len(got.Short) > 0 {
		r.alarm("the account has less than the ledger says")
	}
	r.reportFreeze(got.Frozen)
	return nil
}
