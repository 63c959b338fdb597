package dashboard

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"example.com/checkout/api/dashboard/page"
	"example.com/checkout/api/failure"
	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/webhook"
)

// homePage shows a merchant's numbers in one mode.
type homePage struct {
	storage.Summary
	Failing    []failing // at most maxAlarms
	Folded     []failing // the others
	Announced  []merchant.AddressChange
	Balances   []checkout.Balance
	Ranges     []choice // of the charts
	Currencies []choice
	Reload     string // address of this page
	Title      string // of the charts
	Each       string // period of a bar: "hour" or "day"
	Ended      chart
	Paid       chart
	Currency   money.Currency   // of Paid, because amounts of two currencies cannot be added
	Columns    []money.Currency // of the table: those that were paid
	Rows       []storage.Period // newest first
	Layout     string           // format of a row's time
	At         time.Time        // time of the count
	TodayURL   string           // address of the list of today's sessions
}

// maxAlarms leaves the figures in sight.
const maxAlarms = 3

// choice is a link that shows the same page in another way.
type choice struct {
	Text    string
	URL     string
	Present bool // this way is shown
}

// failing is a registration whose last attempts all failed.
type failing struct {
	storage.FailingEndpoint
	Name string // the URL without its query

	Description string // "" for none
	Today       bool   // Since is of the day in UTC
	Again       string // address of the form that sends again what was missed
}

// ranges are the spans of the charts, with the words for them.
var ranges = []struct {
	span                      storage.Span
	text, title, each, layout string
}{
	{storage.SpanHours, "24 hours", "Last 24 hours", "hour", "15:04"},
	{storage.SpanDays, "30 days", "Last 30 days", "day", "2 Jan"},
}

// showHome serves GET …/. The query chooses the charts: range is 24h or 30d, currency is that of the
// paid amounts. Other values count as none.
func (s *server) showHome(v page.Visit) (page.Answer, error) {
	now := time.Now().UTC()
	q := v.URL.Query()
	of := ranges[0]
	for _, r := range ranges {
		if q.Get("range") == string(r.span) {
			of = r
		}
	}
	sum, err := s.Store.Sessions.Summary(v.Context(), v.Owner(), of.span, now)
	if err != nil {
		return page.Answer{}, err
	}
	p := homePage{
		Summary: sum, Title: of.title, Each: of.each, Layout: of.layout, At: now,
		Rows:     slices.Clone(sum.Periods),
		TodayURL: v.Path("/sessions?from=") + now.Format(time.DateOnly),
	}
	slices.Reverse(p.Rows)
	p.chooseCurrency(money.Currency(q.Get("currency")))
	p.Ended = sessionsChart("ended", "Sessions that ended, by "+of.each, of.layout, sum.Periods)
	p.Paid = paidChart("paid", "Paid in "+string(p.Currency)+", by "+of.each, of.layout, p.Currency, sum.Periods)
	p.link(v, of.span)
	if p.Announced, err = s.Store.Merchants.AddressChanges(v.Context(), v.Owner()); err != nil {
		return page.Answer{}, err
	}
	if p.Balances, err = s.balances(v); err != nil {
		return page.Answer{}, err
	}
	alarms, err := s.alarms(v, sum.Failing, now)
	if err != nil {
		return page.Answer{}, err
	}
	shown := min(len(alarms), maxAlarms)
	p.Failing, p.Folded = alarms[:shown], alarms[shown:]
	return page.Show("home", "Home", p)
}

// alarms returns an alarm for each registration that fails.
func (s *server) alarms(v page.Visit, all []storage.FailingEndpoint, now time.Time) (alarms []failing, err error) {
	if len(all) == 0 {
		return nil, nil
	}
	endpoints, err := s.endpoints(v)
	if err != nil {
		return nil, err
	}
	descriptions := map[string]string{}
	for _, e := range endpoints {
		if e.Description != nil {
			descriptions[e.ID] = *e.Description
		}
	}
	for _, e := range all {
		alarms = append(alarms, failing{
			FailingEndpoint: e, Name: webhook.PlainURL(e.URL), Description: descriptions[e.ID],
			Today: !e.Since.Before(now.Truncate(24 * time.Hour)),
			Again: addressOf(v.Path("/webhooks/"+e.ID+"/replay"), "since", e.Oldest.UTC().Format(minute),
				"status", string(webhook.DeliveryFailed), "rate", strconv.Itoa(webhook.DefaultReplayRate)),
		})
	}
	return alarms, nil
}

// chooseCurrency chooses the currency of the chart: the wanted one, else the first that was paid.
func (p *homePage) chooseCurrency(wanted money.Currency) {
	for _, c := range money.Currencies {
		if slices.ContainsFunc(p.Periods, func(of storage.Period) bool { return of.Paid[c] > 0 }) {
			p.Columns = append(p.Columns, c)
		}
	}
	switch {
	case wanted.Valid():
		p.Currency = wanted
	case len(p.Columns) > 0:
		p.Currency = p.Columns[0]
	default:
		p.Currency = money.Currencies[0]
	}
}

// link fills in the addresses of the page with other charts.
func (p *homePage) link(v page.Visit, span storage.Span) {
	address := func(span storage.Span, c money.Currency) string {
		return addressOf(v.Path("/"), "range", string(span), "currency", string(c))
	}
	p.Reload = address(span, p.Currency)
	for _, r := range ranges {
		p.Ranges = append(p.Ranges, choice{r.text, address(r.span, p.Currency), r.span == span})
	}
	for _, c := range money.Currencies {
		if c == p.Currency || slices.Contains(p.Columns, c) {
			p.Currencies = append(p.Currencies, choice{string(c), address(span, c), c == p.Currency})
		}
	}
}

// Count returns the number of a period's sessions with a status.
func (homePage) Count(p storage.Period, status checkout.Status) int { return p.Sessions[status] }

// All returns the number of sessions created in a period.
func (homePage) All(p storage.Period) (n int) {
	for _, of := range p.Sessions {
		n += of
	}
	return n
}

// PaidToday returns the currencies of today's payments in their usual order.
func (p homePage) PaidToday() (all []money.Currency) {
	for _, c := range money.Currencies {
		if p.Today.Paid[c] > 0 {
			all = append(all, c)
		}
	}
	return all
}

// Tried returns the number of deliveries with at least one finished attempt.
func (p homePage) Tried() int {
	return p.Deliveries.Delivered + p.Deliveries.Failed + p.Deliveries.Retrying
}

// SuccessRate returns the share of Tried that was delivered, in percent with one digit; "" when
// Tried is 0. A delivery that waits for a retry counts as not delivered.
func (p homePage) SuccessRate() string {
	return percentage(p.Deliveries.Delivered, p.Deliveries.Failed+p.Deliveries.Retrying)
}

// FirstRate returns the share of first attempts that arrived, in percent with one digit; "" when none
// has ended.
func (p homePage) FirstRate() string {
	return percentage(p.Deliveries.FirstArrived, p.Deliveries.First-p.Deliveries.FirstArrived)
}

// showRoot serves GET / and GET /m/{merchant}/. It leads to live mode when the merchant has live sessions, or is set up
// for them and has no test sessions either; else to test mode.
func (s *server) showRoot(v page.Visit) (page.Answer, error) {
	works, err := s.Store.Merchants.WorksLive(v.Context(), v.MerchantID())
	if err != nil {
		return page.Answer{}, err
	}
	v.Mode = checkout.ModeTest
	if works {
		v.Mode = checkout.ModeLive
	}
	return page.GoTo(v.Path("/"), "")
}

// showFormer serves old addresses, which named no merchant, and leads to the page of the merchant whose page was
// shown last. It is not found when it would lead elsewhere.
func showFormer(v page.Visit) (page.Answer, error) {
	if !page.IsLocal(v.URL.Path) {
		return page.Answer{}, failure.NotFound
	}
	path := v.Path(strings.TrimPrefix(v.URL.Path, "/"+string(v.Mode)))
	return page.GoTo(listForm{v.URL.Query()}.address(path), "")
}
