package dashboard

import (
	"cmp"
	"net/url"
	"strings"

	"example.com/checkout/api/dashboard/face"
	"example.com/checkout/storage"
	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
)

type payoutsPage struct {
	Form    payoutForm
	Payouts []payoutRow  // newest first
	Sums    []payoutSums // on the first page
	TooMany bool         // more payouts than are added up
	turning
	CSV   string // address of the filtered list as a file
	Fault string // fault of the form, "" for none
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

// payoutForm is the filter of the list, as the person typed it. An empty field filters nothing.
type payoutForm struct {
	Status   checkout.PayoutStatus
	Currency checkout.PayoutCurrency
	days
}

// Chosen reports whether any filter is set.
func (f payoutForm) Chosen() bool { return f != payoutForm{} }

// bound sets the times of a page. It returns the fault of the form, "" for none.
func (f payoutForm) bound(p *pg.Page) (fault string) {
	return cmp.Or(unknown("status", f.Status, checkout.PayoutStatuses),
		unknown("payout currency", f.Currency, checkout.PayoutCurrencies), f.days.bound(p))
}

func readPayoutForm(q url.Values) payoutForm {
	return payoutForm{
		Status: checkout.PayoutStatus(q.Get("status")), Currency: checkout.PayoutCurrency(q.Get("currency")),
		days: readDays(q),
	}
}

func (f payoutForm) filter() storage.PayoutFilter {
	return storage.PayoutFilter{Status: f.Status, Currency: f.Currency}
}

// address returns the address of the filtered list at path, from a cursor on.
func (f payoutForm) address(v face.Visit, path, before string) string {
	return addressOf(v.Path(path), map[string]string{
		"status": string(f.Status), "currency": string(f.Currency), "from": f.From, "to": f.To, "before": before,
	})
}

// maxSum is how many payouts are added up at most. That takes 0.3 s.
const maxSum = 100_000

// listPayouts serves GET …/payouts, newest first.
func (s *server) listPayouts(v face.Visit) (face.Answer, error) {
	p := payoutsPage{Form: readPayoutForm(v.URL.Query())}
	page := pg.Page{Before: before(v, checkout.PrefixPayout), Limit: pageSize + 1}
	if p.Fault = p.Form.bound(&page); p.Fault != "" {
		return face.Refuse("payouts", "Payouts", p)
	}
	p.CSV = p.Form.address(v, "/payouts.csv", "")
	found, err := s.Store.Payouts(v.Context(), v.Owner(), p.Form.filter(), page)
	if err != nil {
		return face.Answer{}, err
	}
	shown, others := onePage(found, page.Before, func(before string) string {
		return p.Form.address(v, "/payouts", before)
	})
	if p.Payouts, err = s.payoutRows(v, shown); err != nil {
		return face.Answer{}, err
	}
	p.turning = others
	if len(shown) == 0 || p.Newest != "" { // older pages have the same sums
		return face.Show("payouts", "Payouts", p)
	}

	page.Limit = maxSum
	sums, complete, err := s.Store.SumPayouts(v.Context(), v.Owner(), p.Form.filter(), page)
	if err != nil {
		return face.Answer{}, err
	}
	p.Sums, p.TooMany = sumsByStatus(sums), !complete
	return face.Show("payouts", "Payouts", p)
}

// payoutRows adds to payouts what the list shows besides. It asks only for what some payout needs.
func (s *server) payoutRows(v face.Visit, payouts []checkout.Payout) ([]payoutRow, error) {
	var hashed []string
	failed := false
	for _, p := range payouts {
		failed = failed || p.Status == checkout.PayoutFailed
		if p.TxHash != "" {
			hashed = append(hashed, p.ID)
		}
	}
	chains, present := map[string]string{}, map[checkout.PayoutCurrency]string{}
	var err error
	if len(hashed) > 0 && v.Mode.Live() {
		if chains, err = s.Store.PayoutChains(v.Context(), v.Owner(), hashed); err != nil {
			return nil, err
		}
	}
	if failed {
		addresses, err := s.Store.PayoutAddresses(v.Context(), v.Owner())
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

// HoldText returns why the payout waits, "" when nothing holds it.
func (r payoutRow) HoldText() string { return holdTexts[r.Hold] }

// Unmended reports whether the address that was refused is still the present one.
func (r payoutRow) Unmended() bool {
	return r.Payout.Failure == checkout.PayoutInvalidAddress && r.Present == r.Destination
}
