package treasury

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"time"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/treasury"
)

// RecoveryOrder requests the payments of an account that the chain has and PostgreSQL lacks, as after the restore of an
// old backup.
type RecoveryOrder struct {
	AccountID string
	From      *uint64           // the first block; nil: since the chain is known to be ahead
	Chosen    map[string]string // ids of payouts that a person chose, by the payment, as treasury.Outflow.Payment names it
	Losses    []string          // payments that paid no payout, as a person says; thaw needs them again
	Apply     bool              // write what is clear
	By        merchant.AuditEntry
}

// Recovery is an outflow that no transfer explains, and what it paid.
type Recovery struct {
	treasury.Outflow

	Payout   string   // the payout that it paid; "" when that is not clear
	Transfer string   // the live transfer that lacks this version of it; "" otherwise
	Fits     []string // payouts that it may have paid
	Why      string   // why a person must look; "" when it is clear
	Done     bool     // it is written
}

// RecoveryResult is the result of Recover.
type RecoveryResult struct {
	From, Next uint64 // the blocks that it looked at: Next is the first one that is not final
	Found      []Recovery
	NotFinal   int // units that transactions use which are not final, so they were not looked at
}

// Recover finds the payouts of the outflows that no transfer explains. An outflow is clear when one payout
// fits it, and no other outflow: by destination, currency and amount. Several of one transaction to one address are
// clear when as many payouts fit them. A transaction is written when the order says so and all its outflows are clear
// beside the losses; a repeat writes nothing twice. The account stays frozen.
//
// It returns storage.ErrNotFrozen, checkout.ErrNotFound, ErrOtherSettings, ErrNoPayment, and checkout.ErrNoRate.
func (t *Treasury) Recover(ctx context.Context, o RecoveryOrder) (RecoveryResult, error) {
	var result RecoveryResult
	account, chain, err := t.account(ctx, o.AccountID)
	if err != nil {
		return result, err
	}
	if account.FrozenAt == nil {
		return result, storage.ErrNotFrozen
	}
	r := recovery{Treasury: t, RecoveryOrder: o, chain: chain, account: account}
	unexplained, err := r.readUnexplained(ctx, &result)
	if err != nil {
		return RecoveryResult{}, err
	}
	lost := byTransaction(unexplained)
	for _, tx := range lost {
		if err := r.matchTransaction(ctx, tx); err != nil {
			return result, err
		}
		r.found = append(r.found, tx.pays...)
	}
	r.settleClaims()
	for _, tx := range lost {
		if err := r.doubtLosses(ctx, tx); err != nil {
			return result, err
		}
		if tx.settle() && o.Apply {
			done, err := t.Store.RecoverTransfer(ctx, tx.recovered, o.By)
			tx.eachPayment(func(f *candidate) {
				if f.Done = done; errors.Is(err, checkout.ErrConflict) {
					f.Why = "it changed meanwhile: run this again"
				}
			})
			if err != nil && !errors.Is(err, checkout.ErrConflict) {
				return result, err
			}
		}
		for _, f := range append(tx.pays, tx.lost...) {
			result.Found = append(result.Found, f.Recovery)
		}
	}
	return result, nil
}

// recovery is one run of Recover.
type recovery struct {
	*Treasury
	RecoveryOrder

	chain   treasury.Chain
	account storage.TreasuryAccount
	found   []*candidate
}

// ErrNoPayment: an order names a payment that the chain does not show in the blocks that were looked at.
var ErrNoPayment = errors.New("the chain shows no such payment")

// readUnexplained returns the final outflows that no transfer explains, oldest first. It returns ErrNoPayment when a
// payment in the order is not among the outflows.
func (r *recovery) readUnexplained(
	ctx context.Context, result *RecoveryResult,
) (unexplained []treasury.Outflow, err error) {
	now, err := r.chain.Snapshot(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the account: %w", err)
	}
	result.NotFinal = len(now.Using)
	result.From = r.account.NextBlock
	if r.account.UnexplainedBlock != nil {
		result.From = *r.account.UnexplainedBlock
	}
	if r.From != nil {
		result.From = *r.From
	}
	names := map[string]bool{}
	for result.Next = result.From; ; {
		out, err := r.chain.Outflows(ctx, result.Next, now.FinalHeight)
		if err != nil {
			return nil, fmt.Errorf("read the outflows: %w", err)
		}
		more, err := r.Store.Unexplained(ctx, r.account.ID, out.All)
		unexplained = append(unexplained, more...)
		if err != nil {
			return nil, err
		}
		for _, o := range out.All {
			names[o.Payment()] = true
		}
		if out.Next <= result.Next {
			return unexplained, r.requireNamed(names)
		}
		result.Next = out.Next
	}
}

func (r *recovery) requireNamed(names map[string]bool) error {
	for _, name := range slices.AppendSeq(slices.Clone(r.Losses), maps.Keys(r.Chosen)) {
		if name == "" || !names[name] {
			return fmt.Errorf("%w: %q", ErrNoPayment, name)
		}
	}
	return nil
}

// matchTransaction finds the transfer that lacks the transaction, or the payouts that its outflows may have paid.
func (r *recovery) matchTransaction(ctx context.Context, tx *lostTransaction) error {
	outflows := make([]treasury.Outflow, len(tx.pays))
	for i, f := range tx.pays {
		outflows[i] = f.Outflow
	}
	if first := outflows[0]; !first.Moved() {
		tx.refuse("it moved nothing, so it paid no payout")
		if first.TxHash == "" {
			tx.refuse("the chain shows no transaction of this slot: thaw says what is missing")
		}
		return nil
	}
	taken, err := r.Store.TransfersWith(ctx, r.account.ID, outflows[0].Slot)
	if err != nil {
		return err
	}
	if len(taken) > 0 && taken[0].Has(outflows[0].TxHash) {
		tx.refuse(fmt.Sprintf("its transaction is that of %s, which is %s and does not pay it", taken[0].ID, taken[0].Status))
		return nil
	}
	v, err := r.chain.VersionOf(ctx, outflows)
	if errors.Is(err, treasury.ErrNotSigned) {
		tx.refuse("it is no payment of this service")
		return nil
	}
	if err != nil {
		tx.refuse(err.Error())
		return nil // the result has it, and the other outflows are looked at
	}
	tx.recovered = storage.Recovered{AccountID: r.account.ID, Version: v}
	for i, f := range tx.pays {
		f.most = v.Outputs[i].Fee
	}
	tx.setAside(r.RecoveryOrder)
	if len(taken) > 0 {
		tx.isVersionOf(taken[0])
		return nil
	}
	return r.fitAll(ctx, tx)
}

// fitAll finds the payouts that the outflows of a transaction paid.
func (r *recovery) fitAll(ctx context.Context, tx *lostTransaction) error {
	for _, f := range slices.Concat(tx.pays, tx.lost) {
		if err := r.fitPayouts(ctx, f); err != nil {
			return err
		}
	}
	tx.pair()
	for _, f := range tx.pays {
		if err := r.judgePayment(ctx, f); err != nil {
			return err
		}
	}
	return nil
}

// fitPayouts finds the payouts that an outflow may have paid.
func (r *recovery) fitPayouts(ctx context.Context, f *candidate) error {
	payouts, err := r.Store.PayoutsTo(ctx, r.account, f.Outflow)
	if err != nil {
		return err
	}
	for _, p := range payouts {
		p = beforeDeductions(p, f.Amount)
		fits, err := r.fitsPayout(ctx, f, p)
		if err != nil {
			return err
		}
		if r.Chosen[f.Payment()] == p.ID && p.Gross().Cmp(f.Amount) >= 0 {
			if !fits && !p.RateHolds(time.Now()) {
				p.ExchangeRate = rateOf(p, f.Amount)
			}
			f.fits, f.chosen = []checkout.Payout{p}, true
			return nil
		}
		if fits {
			f.fits = append(f.fits, p)
		}
	}
	return nil
}

// beforeDeductions returns the payout without its newest deductions, until it is worth amount: the transfer that paid
// it may be older than they are.
func beforeDeductions(p checkout.Payout, amount money.Crypto) checkout.Payout {
	for last := len(p.Deductions) - 1; last >= 0 && p.Gross().Cmp(amount) < 0; last-- {
		p.Deducted -= p.Deductions[last].Amount
		p.Deductions = p.Deductions[:last]
	}
	return p
}

// rateOf returns the rate at which a payout is worth amount before any fee: the rate at the signature of its transfer
// is lost, and the fee with it. It is rounded up, so that it gives the amount back.
func rateOf(p checkout.Payout, amount money.Crypto) money.Rate {
	return money.CeilRate(new(big.Rat).Quo(amount.Coins(), p.Net().Coins(p.SourceCurrency)))
}

// fitsPayout reports whether the outflow can have paid the payout: the fee that is left for the network is at most the
// payout's share of the highest cost of the transaction, at the present price. The payout's row has no fee before the
// transfer is signed.
func (r *recovery) fitsPayout(ctx context.Context, f *candidate, p checkout.Payout) (bool, error) {
	gross := p.Gross()
	if gross.Cmp(f.Amount) < 0 {
		return false, nil
	}
	burnt, err := r.Store.Burnt(ctx, p)
	if err != nil {
		return false, err
	}
	rate, err := r.feeRate(ctx, p)
	if err != nil {
		return false, err
	}
	most := money.CeilCrypto(new(big.Rat).Mul(f.most.Add(burnt).Coins(), rate.Rat()), p.Currency)
	return gross.Sub(f.Amount).Cmp(most) <= 0, nil
}

// judgePayment decides whether the outflow is clear.
func (r *recovery) judgePayment(ctx context.Context, f *candidate) error {
	var p checkout.Payout
	for _, p = range f.fits {
		f.Fits = append(f.Fits, p.ID)
	}
	switch {
	case slices.Contains(r.Losses, f.Payment()):
		f.Why = "it is chosen and named as a loss"
	case r.Chosen[f.Payment()] != "" && !f.chosen:
		f.Why = "it cannot have paid the chosen payout"
	case len(f.Fits) == 0:
		f.Why = "no payout fits"
	case len(f.Fits) > 1:
		f.Why = "several payouts fit"
	case p.Failure != "":
		return r.judgeFailed(ctx, f, p)
	default:
		return r.choose(ctx, f, p)
	}
	return nil
}

// judgeFailed decides whether the outflow to a failed payout is clear. One of which nothing is left cannot be retried:
// its merchant owes what was refunded, disputed or recovered since.
func (r *recovery) judgeFailed(ctx context.Context, f *candidate, p checkout.Payout) error {
	refunded, err := r.Store.FindPaid(ctx, p.Ref, f.Name()+" paid "+p.ID)
	if err != nil {
		return err
	}
	now, err := r.Payouts.Payout(ctx, p.Ref)
	switch {
	case err != nil:
		return err
	case refunded:
		f.Why = "its payment is refunded too: the customer and the merchant both have the money"
	case now.Status == checkout.PayoutFailed && now.Net() == 0:
		return r.choose(ctx, f, p)
	default:
		f.Why = "the payout has failed: retry it, and run this again"
	}
	return nil
}

// choose takes the payout for the one that the outflow paid.
func (r *recovery) choose(ctx context.Context, f *candidate, p checkout.Payout) (err error) {
	f.Payout, f.payout.Payout, f.fee = p.ID, p, p.Gross().Sub(f.Amount)
	f.payout.Destination = f.Destination // its row may have the address of another generation
	f.payout.Value, err = value(ctx, r.Rates, p)
	return err
}

// settleClaims takes the payout from outflows when several fit it. A person's choice comes first.
func (r *recovery) settleClaims() {
	chosen, claims := map[string]bool{}, map[string]int{}
	for _, f := range r.found {
		for _, id := range f.Fits {
			claims[id]++
			chosen[id] = chosen[id] || f.chosen
		}
	}
	for _, f := range r.found {
		if f.Payout == "" || claims[f.Payout] == 1 || f.chosen && r.choices(f.Payout) == 1 {
			continue
		}
		f.Why = "other payments fit the payout too"
		if chosen[f.Payout] && !f.chosen {
			f.Why = "another payment is chosen for its payout"
		}
		f.Payout = ""
	}
}

// doubtLosses refuses a transaction with a loss that may have paid a payout after all: a transaction that is written
// cannot be completed later. A payout that another payment takes does not count, and neither does a refunded payment's.
func (r *recovery) doubtLosses(ctx context.Context, tx *lostTransaction) error {
	for _, f := range tx.lost {
		may, err := r.Store.UndecidedPayment(ctx, r.account, f.Outflow)
		if err != nil {
			return err
		}
		for _, p := range f.fits {
			if slices.ContainsFunc(r.found, func(other *candidate) bool { return other.Payout == p.ID }) {
				continue
			}
			refunded, err := r.Store.FindPaid(ctx, p.Ref, f.Name()+" paid "+p.ID)
			if err != nil {
				return err
			}
			if !refunded {
				may = p.ID
			}
		}
		if may != "" {
			f.Why = "it may be no loss: it may have paid " + may
			tx.refuse("another payment of its transaction is not clear")
		}
	}
	return nil
}

// choices counts the payments for which a person chose the payout.
func (r *recovery) choices(payoutID string) (n int) {
	for _, id := range r.Chosen {
		if id == payoutID {
			n++
		}
	}
	return n
}
