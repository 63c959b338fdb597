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
	Form    listForm
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

// payoutFault sets the times of a page. It returns the fault of the form, "" for none.
func payoutFault(f listForm, p *pg.Page) string {
	return cmp.Or(unknown("status", f.Get("status"), checkout.PayoutStatuses),
		unknown("payout currency", f.Get("currency"), checkout.PayoutCurrencies), f.days(p))
}

func payoutForm(q url.Values) listForm { return readForm(q, "status", "currency") }

func payoutFilter(f listForm) storage.PayoutFilter {
	return storage.PayoutFilter{
		Status: checkout.PayoutStatus(f.Get("status")), Currency: checkout.PayoutCurrency(f.Get("currency")),
	}
}

// payouts returns what reads a page of the filtered list.
func (s *server) payouts(v face.Visit, f listForm) func(pg.Page) ([]checkout.Payout, error) {
	return func(p pg.Page) ([]checkout.Payout, error) {
		return s.Store.Payouts(v.Context(), v.Owner(), payoutFilter(f), p)
	}
}

// maxSum is how many payouts are added up at most. That takes 0.3 s.
const maxSum = 100_000

// listPayouts serves GET …/payouts, newest first.
func (s *server) listPayouts(v face.Visit) (face.Answer, error) {
	p, page := payoutsPage{Form: payoutForm(v.URL.Query())}, pg.Page{}
	if p.Fault = payoutFault(p.Form, &page); p.Fault != "" {
		return face.Refuse("payouts", "Payouts", p)
	}
	p.CSV = p.Form.address(v.Path("/payouts.csv"))
	shown, others, err := pageOf(v, "/payouts", checkout.PrefixPayout, p.Form, page, s.payouts(v, p.Form))
	if err != nil {
		return face.Answer{}, err
	}
	if p.Payouts, err = s.payoutRows(v, shown); err != nil {
		return face.Answer{}, err
	}
	p.turning = others
	if len(shown) == 0 || p.Newest != "" { // older pages have the same sums
		return face.Show("payouts", "Payouts", p)
	}

	page.Limit = maxSum
	sums, complete, err := s.Store.SumPayouts(v.Context(), v.Owner(), payoutFilter(p.Form), page)
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
