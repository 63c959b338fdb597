package treasury

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
)

// RecoveryOrder asks what the chain knows of an account and PostgreSQL lacks, as after the restore of an
// old backup.
type RecoveryOrder struct {
	AccountID string
	From      *uint64           // the first block; nil: since the chain is known to be ahead
	Chosen    map[string]string // ids of payouts that a person chose, by the transaction that paid them
	Apply     bool              // write what is clear
	By        checkout.AuditEntry
}

// Recovery says what an outflow paid that no transfer explains.
type Recovery struct {
	checkout.Outflow

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
// fits it, and no other outflow: by destination, currency and amount. What is clear is written when the
// order says so, one transaction each; a repeat writes nothing twice. The account stays frozen.
//
// It returns storage.ErrNotFrozen, checkout.ErrNotFound, and checkout.ErrNoRate.
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
	unexplained, err := r.read(ctx, &result)
	if err != nil {
		return result, err
	}
	lost := byTransaction(unexplained)
	for _, tx := range lost {
		if err := r.match(ctx, tx); err != nil {
			return result, err
		}
		r.found = append(r.found, tx.pays...)
	}
	r.settleClaims()
	for _, tx := range lost {
		if tx.settle(); o.Apply && tx.pays[0].Why == "" {
			done, err := t.Store.RecoverTransfer(ctx, tx.recovered, o.By)
			tx.note(func(f *candidate) {
				if f.Done = done; errors.Is(err, checkout.ErrConflict) {
					f.Why = "it changed meanwhile: run this again"
				}
			})
			if err != nil && !errors.Is(err, checkout.ErrConflict) {
				return result, err
			}
		}
		tx.note(func(f *candidate) { result.Found = append(result.Found, f.Recovery) })
	}
	return result, nil
}

// lostTransaction is a transaction that no transfer explains, with what would be written.
type lostTransaction struct {
	pays      []*candidate // its outflows
	recovered storage.Recovered
}

func byTransaction(unexplained []checkout.Outflow) (all []*lostTransaction) {
	for _, o := range unexplained {
		f := &candidate{Recovery: Recovery{Outflow: o}}
		if n := len(all); n > 0 && o.TxHash != "" && all[n-1].pays[0].TxHash == o.TxHash {
			all[n-1].pays = append(all[n-1].pays, f)
			continue
		}
		all = append(all, &lostTransaction{pays: []*candidate{f}})
	}
	return all
}

// note does the same with all outflows.
func (tx *lostTransaction) note(do func(f *candidate)) {
	for _, f := range tx.pays {
		do(f)
	}
}

// refuse says of all outflows why a person must look.
func (tx *lostTransaction) refuse(why string) { tx.note(func(f *candidate) { f.Why = why }) }

// settle makes the transaction clear only as a whole, and completes what is written: by payout ids, as any transfer.
func (tx *lostTransaction) settle() {
	unclear := slices.ContainsFunc(tx.pays, func(f *candidate) bool { return f.Why != "" })
	tx.note(func(f *candidate) {
		if unclear && f.Why == "" {
			f.Why, f.Payout, f.Transfer = "another payment of its transaction is not clear", "", ""
		}
	})
	if unclear || tx.recovered.TransferID != "" {
		return
	}
	slices.SortFunc(tx.pays, func(a, b *candidate) int { return cmp.Compare(a.Payout, b.Payout) })
	v := &tx.recovered.Version
	v.Outputs, v.Fee = nil, checkout.Crypto{}
	tx.note(func(f *candidate) {
		tx.recovered.Payouts = append(tx.recovered.Payouts, f.payout)
		v.Outputs = append(v.Outputs, checkout.TransferOutput{
			PayoutID: f.Payout, Destination: f.payout.Destination, Amount: f.Amount, Fee: f.fee})
		v.Fee = v.Fee.Add(f.fee)
	})
}

// recovery is one run of Recover.
type recovery struct {
	*Treasury
	RecoveryOrder

	chain   checkout.Chain
	account storage.TreasuryAccount
	found   []*candidate
}

// candidate is a Recovery with the payout that it paid.
type candidate struct {
	Recovery

	payout storage.PricedPayout
	fee    checkout.Crypto
	chosen bool // by a person
}

// read returns the final outflows that no transfer explains, oldest first.
func (r *recovery) read(ctx context.Context, result *RecoveryResult) (unexplained []checkout.Outflow, err error) {
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
	for result.Next = result.From; ; {
		out, err := r.chain.Outflows(ctx, result.Next, now.FinalHeight)
		if err != nil {
			return nil, fmt.Errorf("read the outflows: %w", err)
		}
		more, err := r.Store.Unexplained(ctx, r.account.ID, out.All)
		unexplained = append(unexplained, more...)
		if err != nil || out.Next <= result.Next {
			return unexplained, err
		}
		result.Next = out.Next
	}
}

// match finds the transfer that lacks the transaction, or the payouts that its outflows may have paid.
func (r *recovery) match(ctx context.Context, tx *lostTransaction) error {
	outflows := make([]checkout.Outflow, len(tx.pays))
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
	v, err := r.chain.Signed(ctx, outflows)
	if errors.Is(err, checkout.ErrNotSigned) {
		tx.refuse("it is no payment of this service")
		return nil
	}
	if err != nil {
		tx.refuse(err.Error())
		return nil // the result has it, and the other outflows are looked at
	}
	tx.recovered = storage.Recovered{AccountID: r.account.ID, Outflows: outflows, Version: v}
	taken, err := r.Store.TransfersWith(ctx, r.account.ID, v.Slot)
	if err != nil {
		return err
	}
	if len(taken) > 0 {
		tx.isVersionOf(taken[0])
		return nil
	}
	for _, f := range tx.pays {
		if err := r.fit(ctx, f, v.MaxCost); err != nil {
			return err
		}
	}
	return nil
}

// fit finds the payouts that an outflow may have paid. most is the highest fee of its transaction.
func (r *recovery) fit(ctx context.Context, f *candidate, most checkout.Crypto) error {
	payouts, err := r.Store.PayoutsTo(ctx, r.account, f.Outflow)
	if err != nil {
		return err
	}
	for _, p := range payouts {
		fee, fits, err := r.fee(ctx, p, f.Amount, most)
		if err != nil {
			return err
		}
		if r.Chosen[f.TxHash] == p.ID && fee.Known() {
			f.Fits, f.chosen = nil, true
			if !fits && !p.RateHolds(time.Now()) {
				p.ExchangeRate, fee = rateOf(p, f.Amount), f.Amount.Sub(f.Amount)
			}
		} else if !fits || f.chosen {
			continue
		}
		f.Fits = append(f.Fits, p.ID)
		f.payout.Payout, f.fee = p, fee
	}
	return r.judge(ctx, f)
}

// rateOf returns the rate at which a payout is worth amount before any fee: the rate at the signature of its
// transfer is lost, and what it took for the fee with it. Rounded up, it gives the amount back.
func rateOf(p checkout.Payout, amount checkout.Crypto) checkout.Rate {
	return checkout.CeilRate(new(big.Rat).Quo(amount.Coins(), p.SourceAmount.Coins(p.SourceCurrency)))
}

// isVersionOf makes the transaction a version of the transfer with its slot, if it is live and pays the same.
func (tx *lostTransaction) isVersionOf(transfer storage.Transfer) {
	last := transfer.Newest()
	if transfer.Status != storage.TransferLive {
		tx.refuse(fmt.Sprintf("its slot is that of %s, which is %s", transfer.ID, transfer.Status))
		return
	}
	if last.Cancels || !samePayments(last.Outputs, tx.recovered.Outflows) {
		tx.refuse("its slot is that of " + transfer.ID + ", which pays something else")
		return
	}
	tx.note(func(f *candidate) { f.Transfer = transfer.ID })
	tx.recovered.TransferID = transfer.ID
	tx.recovered.Version.Fee, tx.recovered.Version.Outputs = last.Fee, last.Outputs
}

// samePayments reports whether the outflows are the payments of the outputs, in whatever order.
func samePayments(outputs []checkout.TransferOutput, outflows []checkout.Outflow) bool {
	left := slices.Clone(outputs)
	for _, o := range outflows {
		i := slices.IndexFunc(left, func(pays checkout.TransferOutput) bool {
			return pays.Amount.Is(o.Amount) && strings.EqualFold(pays.Destination, o.Destination)
		})
		if i < 0 {
			return false
		}
		left = slices.Delete(left, i, i+1)
	}
	return len(left) == 0
}

// fee returns what the merchant paid for the network when the payout was paid amount, none when that is too
// much. It fits when the fee is not more than the transaction could cost, at the present price: the
// payout's row does not know the fee before the transfer is signed.
func (r *recovery) fee(
	ctx context.Context, p checkout.Payout, amount, maxCost checkout.Crypto,
) (fee checkout.Crypto, fits bool, err error) {
	gross := p.Gross()
	if gross.Cmp(amount) < 0 {
		return checkout.Crypto{}, false, nil
	}
	fee = gross.Sub(amount)
	burnt, err := r.Store.Burnt(ctx, p)
	if err != nil {
		return fee, false, err
	}
	most, err := r.costIn(ctx, p, maxCost.Add(burnt))
	return fee, err == nil && fee.Cmp(most) <= 0, err
}

// costIn returns what the network takes, in the payout's currency.
func (r *recovery) costIn(ctx context.Context, p checkout.Payout, cost checkout.Crypto) (checkout.Crypto, error) {
	rate, err := r.feeRate(ctx, p)
	if err != nil {
		return checkout.Crypto{}, err
	}
	return checkout.CeilCrypto(new(big.Rat).Mul(cost.Coins(), rate.Rat()), p.Currency), nil
}

// judge says whether the outflow is clear.
func (r *recovery) judge(ctx context.Context, f *candidate) (err error) {
	p := f.payout.Payout
	switch {
	case r.Chosen[f.TxHash] != "" && !f.chosen:
		f.Why = "it cannot have paid the chosen payout"
	case len(f.Fits) == 0:
		f.Why = "no payout fits"
	case len(f.Fits) > 1:
		f.Why = "several payouts fit"
	case p.Status == checkout.PayoutFailed:
		f.Why = "the payout has failed: retry it, and run this again"
		refunded, err := r.Store.FindPaid(ctx, p.Ref, f.Name()+" paid "+p.ID)
		if refunded {
			f.Why = "its payment is refunded too: the customer and the merchant both have the money"
		}
		return err
	default:
		f.Payout = p.ID
		f.payout.Value, err = value(ctx, r.Rates, p)
	}
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
		f.Why = "other transactions fit the payout too"
		if chosen[f.Payout] && !f.chosen {
			f.Why = "another transaction is chosen for its payout"
		}
		f.Payout = ""
	}
}

// choices counts the transactions for which a person chose the payout.
func (r *recovery) choices(payoutID string) (n int) {
	for _, id := range r.Chosen {
		if id == payoutID {
			n++
		}
	}
	return n
}
