package treasury

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

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
