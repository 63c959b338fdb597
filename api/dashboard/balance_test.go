package dashboard

import (
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/storage"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/money"
)

// paid is a paid session of 1,234.50 EUR, whose fee is 12.35, unless change says otherwise.
func (d *desk) paid(merchant string, mode checkout.Mode, change ...func(*checkout.Session)) (s checkout.Session, payout checkout.Ref) {
	free := func(s *checkout.Session) { s.Metadata = []byte(`{}`) }
	s = d.newSession(merchant, mode, append([]func(*checkout.Session){free}, change...)...)
	_, settled := d.pay(s, "")
	return s, s.Owner.Ref(settled.PayoutID)
}

// refund orders a refund, and ends it unless status is pending.
func (d *desk) refund(s checkout.Session, amount money.Amount, status checkout.RefundStatus) checkout.Refund {
	r := must.Get(d.store.Refunds.OrderRefund(d.t.Context(), storage.RefundOrder{
		ID: checkout.NewID(checkout.PrefixRefund), Session: s.Ref, Amount: amount, Reason: checkout.RefundRequested,
	}))(d.t)
	if status != checkout.RefundPending {
		must.Get(d.store.Refunds.RecordRefund(d.t.Context(), r, checkout.RefundResult{Status: status, Reference: r.ID, Amount: r.Amount}))(d.t)
	}
	return r
}

var changeOf = regexp.MustCompile(`<tr><td>([A-Z][a-z ]+)</td><td class="number">([^<]+)</td>`)

func changes(p received) (all []string) {
	for _, m := range changeOf.FindAllStringSubmatch(p.text(), -1) {
		all = append(all, m[1]+" "+m[2])
	}
	return all
}

func TestBalance_ShowsWhatIsOwedAndWhatChangedIt(t *testing.T) {
	d, viewer := newDeskAs(t, merchant.RoleViewer)
	viewer.get("/test/balance").shows("No changes yet").hides("Pending <span>")
	viewer.get("/test/").hides("Balance</a></h2>")
	s, payout := d.paid(d.merchant, checkout.ModeTest)
	first := d.refund(s, 100_000, checkout.RefundSucceeded)
	failed := d.refund(s, 10_000, checkout.RefundFailed)
	d.paid(d.merchant, checkout.ModeTest, func(s *checkout.Session) { s.Currency = money.USD })
	d.paid(d.merchant, checkout.ModeLive, func(s *checkout.Session) { s.Currency = money.GBP })
	d.paid(d.other, checkout.ModeTest, func(s *checkout.Session) { s.Currency = money.GBP })

	for _, path := range []string{"/test/", "/test/balance"} {
		viewer.get(path).shows("<h3>EUR</h3>", "Pending <span>232.15 EUR", "Available <span>0.00 EUR", "Reserved <span>0.00 EUR",
			"Owed by you <span>0.00 EUR", "<h3>USD</h3>", "Pending <span>1,222.15 USD").hides("GBP</h3>")
	}
	viewer.get("/test/").shows(`<a href="/test/balance">Balance</a>`)

	day := func(days int) string { return time.Now().UTC().AddDate(0, 0, days).Format(time.DateOnly) }
	eur := []string{"Refund failed 99.00 EUR", "Refund −99.00 EUR", "Refund −990.00 EUR", "Payment 1,222.15 EUR"}
	for query, want := range map[string][]string{
		"":                          append([]string{"Payment 1,222.15 USD"}, eur...),
		"?currency=EUR":             eur,
		"?type=refund":              {"Refund −99.00 EUR", "Refund −990.00 EUR"},
		"?type=refund&currency=USD": nil,
		"?from=" + day(1):           nil,
		"?from=" + day(-1) + "&to=" + day(1) + "&currency=EUR": eur,
		"?before=nonsense&type=payment":                        {"Payment 1,222.15 USD", "Payment 1,222.15 EUR"},
	} {
		got := viewer.open("/test/balance" + query)
		require.Equal(t, want, changes(got), query)
		require.Len(t, viewer.table("/test/balance.csv"+query), len(want), query)
	}
	for _, query := range []string{"?type=x", "?currency=BTC", "?from=x"} {
		viewer.get("/test/balance"+query).is(422, query)
		viewer.get("/test/balance.csv"+query).is(400, query)
	}
	row := viewer.table("/test/balance.csv?type=refund")[1]
	require.Equal(t, []string{"refund", "-1000.00", "-10.00", "-990.00", "EUR", first.ID},
		columns(row, "type", "amount", "fee", "net", "currency", "source"))

	sum := viewer.get("/test/sessions?search=" + first.ID)
	sum.leads("/test/sessions/" + s.ID + "#" + first.ID)
	viewer.get("/test/balance").shows(`<a href="/test/sessions?search=` + failed.ID + `">`)
	viewer.get("/live/sessions?search=" + first.ID).shows("No sessions match")

	d.exec(`UPDATE payout SET status = 'sent' WHERE id = $1`, payout.ID) // paid, but not booked: the rest is owed to the merchant
	viewer.get("/test/balance").shows("Pending <span>0.00 EUR", "Available <span>232.15 EUR")
}

func TestBalance_PagesHaveEveryChangeOnce(t *testing.T) {
	d, viewer := newDeskAs(t, merchant.RoleViewer)
	for range pageSize + 1 {
		d.paid(d.merchant, checkout.ModeTest)
	}
	first := viewer.open("/test/balance?type=payment")
	require.Len(t, changes(first), pageSize)
	older := regexp.MustCompile(`href="([^"]+)">Older`).FindStringSubmatch(first.text())
	require.NotNil(t, older)
	last := viewer.open(older[1])
	require.Len(t, changes(last), 1)
	last.shows(`href="/test/balance?type=payment">Newest`).hides(">Older")
}
