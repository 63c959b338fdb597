package dashboard

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
)

// chart is a bar chart. The browser stretches its drawing to the width of the page. So the drawing
// has only bars; all text stands around it.
type chart struct {
	ID      string
	Title   string
	Desc    string // description for people who cannot see the chart
	Total   string // sum of all bars, "" without any
	Top     string // value at the upper edge
	Bars    []bar
	Legend  []legend
	Ticks   []string // first, middle and last bar
	Columns int      // width of the drawing: 10 for each bar
}

// bar is one bar. Its parts are stacked from the bottom.
type bar struct {
	X     int
	Label string // tooltip
	Parts []part
}

// part is a piece of a bar, in a drawing 100 high.
type part struct {
	Class  string
	Y      string
	Height string
}

// legend explains a colour. Total is the sum of its parts.
type legend struct {
	Class string
	Text  string
	Total int
}

const (
	barWidth    = 10
	chartHeight = 100
)

// chartedStatuses are the statuses of the stacked parts.
var chartedStatuses = []struct {
	status checkout.Status
	text   string
}{{checkout.StatusCompleted, "completed"}, {checkout.StatusFailed, "failed"}, {checkout.StatusExpired, "expired"}}

// sessionsChart shows the sessions of each period, stacked by final status.
func sessionsChart(id, title, layout string, periods []storage.Period) chart {
	c := newChart(id, title, layout, periods)
	var highest int64
	for _, p := range periods {
		highest = max(highest, endedSessions(p))
	}

	top := roundUp(highest)
	c.Top = strconv.FormatInt(top, 10)
	for i, p := range periods {
		below, words := int64(0), []string{}
		for _, of := range chartedStatuses {
			n := int64(p.Sessions[of.status])
			c.Bars[i].Parts = appendPart(c.Bars[i].Parts, of.text, below, n, top)
			below += n
			words = append(words, fmt.Sprintf("%d %s", n, of.text))
		}
		c.Bars[i].Label += ": " + strings.Join(words, ", ")
	}

	all := 0
	for _, of := range chartedStatuses {
		l := legend{Class: of.text, Text: of.text}
		for _, p := range periods {
			l.Total += p.Sessions[of.status]
		}
		c.Legend, all = append(c.Legend, l), all+l.Total
	}
	if all > 0 {
		c.Total = strconv.Itoa(all)
	}

	c.Desc = fmt.Sprintf(
		"%d completed, %d failed and %d expired. The highest bar has %d.", c.Legend[0].Total,
		c.Legend[1].Total, c.Legend[2].Total, highest,
	)
	return c
}

func endedSessions(p storage.Period) (n int64) {
	for _, of := range chartedStatuses {
		n += int64(p.Sessions[of.status])
	}
	return n
}

// paidChart shows the paid amounts in one currency.
func paidChart(id, title, layout string, currency money.Currency, periods []storage.Period) chart {
	c := newChart(id, title, layout, periods)
	var highest, total money.Amount
	for _, p := range periods {
		highest, total = max(highest, p.Paid[currency]), total+p.Paid[currency]
	}
	if total == 0 {
		return c
	}
	top := roundUp(int64(highest))
	c.Top, c.Total = showMoney(money.Amount(top), currency), showMoney(total, currency)
	c.Desc = fmt.Sprintf("%s in all. The highest bar has %s.", c.Total, showMoney(highest, currency))
	for i, p := range periods {
		c.Bars[i].Parts = appendPart(nil, "paid", 0, int64(p.Paid[currency]), top)
		c.Bars[i].Label += ": " + showMoney(p.Paid[currency], currency)
	}
	return c
}

func newChart(id, title, layout string, periods []storage.Period) chart {
	c := chart{ID: id, Title: title, Columns: barWidth * len(periods), Bars: make([]bar, len(periods))}
	for i, p := range periods {
		c.Bars[i] = bar{X: barWidth * i, Label: showPeriod(p.From, layout)}
	}
	for _, i := range []int{0, len(periods) / 2, len(periods) - 1} {
		c.Ticks = append(c.Ticks, showPeriod(periods[i].From, layout))
	}
	return c
}

func showPeriod(from time.Time, layout string) string { return from.UTC().Format(layout) }

// appendPart adds a part for n above a stack of below.
func appendPart(parts []part, class string, below, n, top int64) []part {
	if n == 0 {
		return parts
	}
	height := func(n int64) float64 { return chartHeight * float64(n) / float64(top) }
	return append(parts, part{class, fmt.Sprintf("%.2f", chartHeight-height(below+n)), fmt.Sprintf("%.2f", height(n))})
}

// roundUp returns the next number that is easy to read beside a chart: 1, 2, 4, 6 or 8 with zeros.
// Little of the chart then stays empty.
func roundUp(n int64) int64 {
	for unit := int64(1); ; unit *= 10 {
		for _, step := range []int64{1, 2, 4, 6, 8} {
			if unit*step >= n {
				return unit * step
			}
		}
	}
}

// percentage returns good/(good+bad) in percent with one digit, cut and not rounded: it is 100 only
// when bad is 0. It returns "" when both are 0.
func percentage(good, bad int) string {
	if good+bad == 0 {
		return ""
	}
	thousandths := 1000 * good / (good + bad)
	if thousandths%10 == 0 {
		return strconv.Itoa(thousandths/10) + " %"
	}
	return fmt.Sprintf("%d.%d %%", thousandths/10, thousandths%10)
}
