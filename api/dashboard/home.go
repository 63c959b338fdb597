package dashboard

import (
	"slices"
	"time"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
)

// homePage is how the merchant is doing in one mode.
type homePage struct {
	storage.Summary
	Charts   []homeCharts
	At       time.Time // when it was counted
	Start    bool      // nothing has happened yet: the page says how to begin
	TodayURL string    // list of today's sessions
}

// homeCharts are the charts of one length of time.
type homeCharts struct {
	ID         string
	Title      string
	Each       string // what a bar is, "hour" or "day"
	Sessions   chart
	Paid       []chart // one for each currency: what cannot be added is not
	Currencies []checkout.Currency
	Rows       []storage.Period // newest first
	Layout     string           // of the time of a row
}

// showHome serves GET /{mode}/.
func (s *server) showHome(v visit) (answer, error) {
	now := time.Now().UTC()
	sum, err := s.Store.Summary(v.Context(), v.Owner(), now)
	if err != nil {
		return answer{}, err
	}
	p := homePage{Summary: sum, At: now, Start: true, TodayURL: v.Path("/sessions?from=") + now.Format(time.DateOnly)}
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
		if paid := paidChart(id+"-"+string(currency), "Paid in "+string(currency)+", by "+each, layout, currency, periods); paid.Total != "" {
			c.Paid, c.Currencies = append(c.Paid, paid), append(c.Currencies, currency)
		}
	}
	return c
}

// Count is how many sessions of a period have a status.
func (homePage) Count(p storage.Period, status checkout.Status) int { return p.Sessions[status] }

// All is how many sessions were created in a period.
func (homePage) All(p storage.Period) (n int) {
	for _, of := range p.Sessions {
		n += of
	}
	return n
}

// PaidToday are today's currencies in their usual order.
func (p homePage) PaidToday() (all []checkout.Currency) {
	for _, c := range checkout.Currencies {
		if p.Today().Paid[c] > 0 {
			all = append(all, c)
		}
	}
	return all
}

// Tried are the deliveries of which an attempt has ended.
func (p homePage) Tried() int {
	return p.Deliveries.Delivered + p.Deliveries.Failed + p.Deliveries.Retrying
}

// SuccessRate is the share of Tried that arrived, in percent with one digit; ""
// before one was tried. What waits for a retry has not arrived.
func (p homePage) SuccessRate() string {
	return percentage(p.Deliveries.Delivered, p.Deliveries.Failed+p.Deliveries.Retrying)
}
