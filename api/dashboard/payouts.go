package dashboard

import (
	"cmp"
	"errors"
	"strings"

	"example.com/checkout/api/dashboard/page"
	"example.com/checkout/storage"
	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
)

type payoutsPage struct {
	listing
	Payouts []payoutRow  // newest first
	Sums    []payoutSums // on the first page
	TooMany bool         // more payouts than are added up
}

// payoutRow is a payout in the list.
type payoutRow struct {
	checkout.Payout
	Explorer string // address of a page about its transaction, "" without one
	Present  string // the address to which a retry sends, "" when none is set
}

// payoutSums adds up the filtered payouts of one status.
type payoutSums struct {
	Status  checkout.PayoutStatus
	Payouts int
	Paid    []string // amount and currency of what was sent
	Source  []string // amount and currency of the payments, after the fee
}

// payouts returns the filter of the list too.
func (s *server) payouts(v page.Visit) (l selection[checkout.Payout], filter storage.PayoutFilter) {
	l.form = readForm(v.URL.Query(), "status", "currency")
	filter = storage.PayoutFilter{
		Status: checkout.PayoutStatus(l.form.Get("status")), Currency: money.PayoutCurrency(l.form.Get("currency")),
	}
	l.fault = cmp.Or(unknownChoice("status", filter.Status, checkout.PayoutStatuses),
		unknownChoice("payout currency", filter.Currency, money.PayoutCurrencies), l.form.days(&l.page))
	l.read = func(p pg.Page) ([]checkout.Payout, error) {
		return s.Store.Payouts.Payouts(v.Context(), v.Owner(), filter, p)
	}
	return l, filter
}

// maxSum is how many payouts are added up at most. That takes 0.3 s.
const maxSum = 100_000

// listPayouts serves GET …/payouts, newest first.
func (s *server) listPayouts(v page.Visit) (page.Answer, error) { return s.payoutsPage(v, "") }

// payoutsPage shows the list with the fault of a retry, "" for none.
func (s *server) payoutsPage(v page.Visit, fault string) (page.Answer, error) {
	l, filter := s.payouts(v)
	shown, about, err := l.list(v, "payouts", checkout.PrefixPayout)
	if err != nil {
		return page.Answer{}, err
	}
	p := payoutsPage{listing: about}
	if p.Payouts, err = s.payoutRows(v, shown); err != nil {
		return page.Answer{}, err
	}
	if len(shown) > 0 && p.Newest == "" { // older pages have the same sums
		l.page.Limit = maxSum
		sums, complete, err := s.Store.Payouts.SumPayouts(v.Context(), v.Owner(), filter, l.page)
		if err != nil {
			return page.Answer{}, err
		}
		p.Sums, p.TooMany = sumsByStatus(sums), !complete
	}
	p.Fault = cmp.Or(p.Fault, fault)
	return page.ShowForm(p.Fault, "payouts", "Payouts", p)
}

// payoutRows adds to payouts what the list shows besides. It asks only for what some payout needs.
func (s *server) payoutRows(v page.Visit, payouts []checkout.Payout) ([]payoutRow, error) {
	var hashed []string
	failed := false
	for _, p := range payouts {
		failed = failed || p.Status == checkout.PayoutFailed
		if p.TxHash != "" {
			hashed = append(hashed, p.ID)
		}
	}
	chains, present := map[string]string{}, map[money.PayoutCurrency]string{}
	var err error
	if len(hashed) > 0 && v.Mode.Live() {
		if chains, err = s.Store.Payouts.PayoutChains(v.Context(), v.Owner(), hashed); err != nil {
			return nil, err
		}
	}
	if failed {
		addresses, err := s.Store.Merchants.PayoutAddresses(v.Context(), v.Owner())
		if err != nil {
			return nil, err
		}
		for _, a := range addresses {
			present[a.Currency] = a.Address
		}
	}
	rows := make([]payoutRow, len(payouts))
	for i, p := range payouts {
		rows[i] = payoutRow{p, explorer(chains[p.ID], p.TxHash), present[p.Currency]}
	}
	return rows, nil
}

// sumsByStatus puts the sums of each status together, in the order of checkout.PayoutStatuses. Only what
// was sent has a sum in payout currencies: others have no amount yet, or paid nothing.
func sumsByStatus(sums []storage.PayoutSum) (all []payoutSums) {
	for _, status := range checkout.PayoutStatuses {
		of := payoutSums{Status: status}
		for _, sum := range sums {
			switch {
			case sum.Status != status:
			case sum.SourceCurrency != "":
				of.Source = append(of.Source, showMoney(sum.Source, sum.SourceCurrency))
			default:
				of.Payouts += sum.Payouts
				if status == checkout.PayoutSent {
					of.Paid = append(of.Paid, sum.Amount+" "+string(sum.Currency))
				}
			}
		}
		if of.Payouts > 0 {
			all = append(all, of)
		}
	}
	return all
}

// Failure returns the reason of a failed payout in words.
func (r payoutRow) Failure() string { return strings.TrimSuffix(r.Payout.Failure.Message(), ".") }

// showDeduction returns in words what a payout does not pay, and why.
func showDeduction(p checkout.Payout, d checkout.Deduction) string {
	kept := showMoney(d.Amount, p.SourceCurrency) + " for "
	switch debt := money.Currency(d.Source); {
	case d.Type != checkout.DeductionRecovery:
		return kept + string(d.Type) + " " + d.Source
	case d.Owed != nil && debt != p.SourceCurrency:
		return kept + showMoney(*d.Owed, debt) + " that you owed"
	}
	return kept + "what you owed"
}

// HoldText returns why the payout waits, "" when nothing holds it.
func (r payoutRow) HoldText() string { return holdTexts[r.Hold] }

// Unmended reports whether the address that was refused is still the present one.
func (r payoutRow) Unmended() bool {
	return r.Payout.Failure == checkout.PayoutInvalidAddress && r.Present == r.Destination
}

var payoutRetried = page.Notice("payout_retried", "The payout is sent again, to your current payout address.")

// retrySessionPayout serves POST …/sessions/{id}/retry_payout.
func (s *server) retrySessionPayout(v page.Visit, session checkout.Session) (page.Answer, error) {
	if session.Payout == nil {
		return page.Answer{}, checkout.ErrNotFound
	}
	_, err := s.actions.RetryPayout(v.Context(), *session.Payout, v.By())
	if fault := retryFault(err); fault != "" {
		return s.sessionPage(v, fault)
	}
	return page.GoToAfter(err, v.Path("/sessions/"+session.ID), payoutRetried)
}

// retryPayout serves POST …/payouts/{id}/retry, also of a payout without a session.
func (s *server) retryPayout(v page.Visit, p checkout.Payout) (page.Answer, error) {
	_, err := s.actions.RetryPayout(v.Context(), p, v.By())
	if fault := retryFault(err); fault != "" {
		return s.payoutsPage(v, fault)
	}
	return page.GoToAfter(err, v.Path("/payouts"), payoutRetried)
}

// retryFault returns why a payout cannot be retried, "" for another error and for none.
func retryFault(err error) string {
	reverted, isReverted := errors.AsType[*checkout.AddressRevertedError](err)
	switch {
	case isReverted:
		return "The network reverted a transfer to " + reverted.Address + ". " + reverted.Advice()
	case errors.Is(err, checkout.ErrPayoutNotFailed):
		return "The payout has not failed, or was already retried."
	case errors.Is(err, checkout.ErrTransferStands):
		return "A signed transfer may still pay the payout, so it cannot be retried."
	case errors.Is(err, checkout.ErrPaymentRefunded), errors.Is(err, checkout.ErrNothingLeft):
		return "Nothing is left to pay, so the payout cannot be retried."
	}
	return ""
}
