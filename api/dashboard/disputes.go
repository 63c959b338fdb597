package dashboard

import (
	"cmp"

	"example.com/checkout/api/dashboard/page"
	"example.com/checkout/storage"
	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
)

type disputesPage struct {
	listing
	Disputes []checkout.Dispute // newest first
}

// listDisputes serves GET …/disputes.
func (s *server) listDisputes(v page.Visit) (page.Answer, error) {
	shown, p, err := s.disputes(v).list(v, "disputes", checkout.PrefixDispute)
	if err != nil {
		return page.Answer{}, err
	}
	return page.ShowForm(p.Fault, "disputes", "Disputes", disputesPage{p, shown})
}

func (s *server) disputes(v page.Visit) (l selection[checkout.Dispute]) {
	l.form = readForm(v.URL.Query(), "status")
	filter := storage.DisputeFilter{Status: checkout.DisputeStatus(l.form.Get("status"))}
	l.fault = cmp.Or(unknownChoice("status", filter.Status, checkout.DisputeStatuses), l.form.days(&l.page))
	l.read = func(p pg.Page) ([]checkout.Dispute, error) {
		return s.Store.Disputes.Disputes(v.Context(), v.Owner(), filter, p)
	}
	return l
}
