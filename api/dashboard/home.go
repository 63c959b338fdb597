package dashboard

import (
	"slices"
	"time"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
)

// homePage shows a merchant's numbers in one mode.
type homePage struct {
	storage.Summary
	Charts   []homeCharts
	At       time.Time // time of the count
	Start    bool      // no sessions yet: the page explains how to begin
	TodayURL string    // address of the list of today's sessions
}

// homeCharts are the charts of one span of time.
type homeCharts struct {
	ID         string
	Title      string
	Each       string // period of a bar: "hour" or "day"
	Sessions   chart
	Paid       []chart // one for each currency, because amounts of two currencies cannot be added
	Currencies []checkout.Currency
	Rows       []storage.Period // newest first
	Layout     string           // format of a row's time
}

// showHome serves GET /{mode}/.
func (s *server) showHome(v visit) (answer, error) {
	now := time.Now().UTC()
	sum, err := s.Store.Summary(v.Context(), v.Owner(), now)
	if err != nil {
		return answer{}, err
	}
	p := homePage{
		Summary:  sum,
		At:       now,
		Start:    true,
		TodayURL: v.Path("/sessions?from=") + now.Format(time.DateOnly),
	}
	for _, d := range sum.Days {
		p.Start = p.Start && len(d.Sessions) == 0
	}
	p.Charts = []homeCharts{
		newHomeCharts("hours", "Last 24 hours", "hour", "15:04", sum.Hours),
		newHomeCharts("days", "Last 30 days", "day", "2 Jan", sum.Days),
	}
	return show("home", "Home", p)
}

func newHomeCharts(id, title, each, layout string, periods []storage.Period) homeCharts {
	c := homeCharts{ID: id, Title: title, Each: each, Layout: layout, Rows: slices.Clone(periods)}
	slices.Reverse(c.Rows)
	c.Sessions = sessionsChart(id+"-sessions", "Sessions that ended, by "+each, layout, periods)
	for _, currency := range checkout.Currencies {
		if paid := paidChart(id+"-"+string(currency), "Paid in "+string(currency)+", by "+each, layout, currency,
			periods); paid.Total != "" {
			c.Paid, c.Currencies = append(c.Paid, paid), append(c.Currencies, currency)
		}
	}
	return c
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
func (p homePage) PaidToday() (all []checkout.Currency) {
	for _, c := range checkout.Currencies {
		if p.Today().Paid[c] > 0 {
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
