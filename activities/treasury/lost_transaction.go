package treasury

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/treasury"
)

// lostTransaction is a transaction that no transfer explains, with what would be written.
type lostTransaction struct {
	pays      []*candidate // its outflows, without the losses
	lost      []*candidate
	recovered storage.Recovered
}

func byTransaction(unexplained []treasury.Outflow) (all []*lostTransaction) {
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

// eachPayment calls do for all outflows but the losses.
func (tx *lostTransaction) eachPayment(do func(f *candidate)) {
	for _, f := range tx.pays {
		do(f)
	}
}

// refuse records at all outflows why a person must look.
func (tx *lostTransaction) refuse(why string) { tx.eachPayment(func(f *candidate) { f.Why = why }) }

// settle makes the transaction clear only as a whole, and completes the transfer, with its payouts in the order of
// their ids as in any transfer.
func (tx *lostTransaction) settle() (clear bool) {
	unclear := slices.ContainsFunc(tx.pays, func(f *candidate) bool { return f.Why != "" })
	tx.eachPayment(func(f *candidate) {
		if unclear && f.Why == "" {
			f.Why, f.Payout, f.Transfer = "another payment of its transaction is not clear", "", ""
		}
	})
	if unclear || len(tx.pays) == 0 || tx.recovered.TransferID != "" {
		return !unclear && len(tx.pays) > 0
	}
	slices.SortFunc(tx.pays, func(a, b *candidate) int { return cmp.Compare(a.Payout, b.Payout) })
	v := &tx.recovered.Version
	v.Outputs, v.Fee = nil, money.Crypto{}
	tx.eachPayment(func(f *candidate) {
		tx.recovered.Payouts = append(tx.recovered.Payouts, f.payout)
		v.Outputs = append(v.Outputs, treasury.TransferOutput{
			PayoutID: f.Payout, Destination: f.Destination, Amount: f.Amount, Fee: f.fee})
		v.Fee = v.Fee.Add(f.fee)
	})
	return true
}

// setAside takes the losses out of the payments. The end of the transfer books the cost of the whole transaction.
func (tx *lostTransaction) setAside(o RecoveryOrder) {
	all, cost := tx.pays, money.Crypto{}
	tx.pays, tx.recovered.Outflows = nil, nil
	for _, f := range all {
		cost = cost.Add(f.Cost)
		if slices.Contains(o.Losses, f.Payment()) && o.Chosen[f.Payment()] == "" {
			f.Why = "it is a loss: thaw with --loss"
			tx.lost = append(tx.lost, f)
			continue
		}
		f.Cost = money.Crypto{}
		tx.pays, tx.recovered.Outflows = append(tx.pays, f), append(tx.recovered.Outflows, f.Outflow)
	}
	if len(tx.pays) > 0 {
		tx.recovered.Outflows[0].Cost = cost
	}
}

// pair gives the payments to one address as many payouts, when no other payout fits them: then all of these are paid.
// Their highest fees are the same, so if the payouts fit the payments in any order, the smallest fits the smallest.
func (tx *lostTransaction) pair() {
	to := map[string][]*candidate{}
	tx.eachPayment(func(f *candidate) {
		if !f.chosen {
			to[f.Destination] = append(to[f.Destination], f)
		}
	})
	for _, pays := range to {
		union := map[string]checkout.Payout{}
		for _, f := range pays {
			for _, p := range f.fits {
				union[p.ID] = p
			}
		}
		payouts := slices.SortedFunc(maps.Values(union), func(a, b checkout.Payout) int {
			return cmp.Or(a.Gross().Cmp(b.Gross()), cmp.Compare(a.ID, b.ID))
		})
		slices.SortStableFunc(pays, func(a, b *candidate) int { return a.Amount.Cmp(b.Amount) })
		fits := func(f *candidate, p checkout.Payout) bool {
			return slices.ContainsFunc(f.fits, func(o checkout.Payout) bool { return o.ID == p.ID })
		}
		if slices.EqualFunc(pays, payouts, fits) {
			for i, f := range pays {
				f.fits = payouts[i : i+1]
			}
		}
	}
}

// candidate is a Recovery with the payout that it paid.
type candidate struct {
	Recovery

	most   money.Crypto      // the highest fee, in the chain's own currency, as treasury.Chain.VersionOf says
	fits   []checkout.Payout // each with the rate at which it was paid
	payout storage.PricedPayout
	fee    money.Crypto
	chosen bool // by a person
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
	tx.eachPayment(func(f *candidate) { f.Transfer = transfer.ID })
	tx.recovered.TransferID = transfer.ID
	tx.recovered.Version.Fee, tx.recovered.Version.Outputs = last.Fee, last.Outputs
}

// samePayments reports whether the outflows are the payments of the outputs, in whatever order.
func samePayments(outputs []treasury.TransferOutput, outflows []treasury.Outflow) bool {
	left := slices.Clone(outputs)
	for _, o := range outflows {
		i := slices.IndexFunc(left, func(pays treasury.TransferOutput) bool {
			return pays.Amount.Is(o.Amount) && strings.EqualFold(pays.Destination, o.Destination)
		})
		if i < 0 {
			return false
		}
		left = slices.Delete(left, i, i+1)
	}
	return len(left) == 0
}
