package dashboard

import (
	"cmp"

	"example.com/checkout/api/dashboard/page"
	"example.com/checkout/storage"
	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
)

type refundsPage struct {
	listing
	Refunds []checkout.Refund // newest first
}

// listRefunds serves GET …/refunds.
func (s *server) listRefunds(v page.Visit) (page.Answer, error) {
	shown, p, err := s.refunds(v).list(v, "refunds", checkout.PrefixRefund)
	if err != nil {
		return page.Answer{}, err
	}
	return page.ShowForm(p.Fault, "refunds", "Refunds", refundsPage{p, shown})
}

func (s *server) refunds(v page.Visit) (l selection[checkout.Refund]) {
	l.form = readForm(v.URL.Query(), "status")
	filter := storage.RefundFilter{Status: checkout.RefundStatus(l.form.Get("status"))}
	l.fault = cmp.Or(unknownChoice("status", filter.Status, checkout.RefundStatuses), l.form.days(&l.page))
	l.read = func(p pg.Page) ([]checkout.Refund, error) {
		return s.Store.Refunds.Refunds(v.Context(), v.Owner(), filter, p)
	}
	return l
}

var refundFailureTexts = map[checkout.RefundFailure]string{
	checkout.RefundRefused:  "The card network refused it",
	checkout.RefundReturned: "The customer's bank returned it",
}

// refundFailure returns the reason of a failed refund in words, "" for another one.
func refundFailure(r checkout.Refund) string { return refundFailureTexts[r.Failure()] }
