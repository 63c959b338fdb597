package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// results are the results of one call of this command. The table and the JSON show the same
// figures.
type results struct {
	At      time.Time `json:"at"`
	Machine string    `json:"machine"`
	Reports []report  `json:"reports"`
}

func newResults() results {
	return results{
		At:      time.Now().UTC().Truncate(time.Second),
		Machine: fmt.Sprintf("%s/%s, %d CPUs, %s", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version()),
	}
}

// report is the result of one benchmark.
type report struct {
	Name   string `json:"name"`
	About  string `json:"about"`
	Result string `json:"result"` // one sentence
	Parts  []part `json:"parts"`
}

// part is a table. Each figure is a column, and each compared thing is a line.
type part struct {
	Of      string   `json:"of"` // the kind of the compared things, such as "way"
	Figures []figure `json:"figures"`
}

// figure is one quantity of several things.
type figure struct {
	Name   string   `json:"name"`
	Unit   string   `json:"unit,omitempty"` // "" for a count
	Goal   *goal    `json:"goal,omitempty"` // nil when there is none
	Series []series `json:"series"`
}

// goal is a bound for the median.
type goal struct {
	Value   float64 `json:"value"`
	AtLeast bool    `json:"at_least,omitempty"` // otherwise the bound is an upper one
	Of      string  `json:"of,omitempty"`       // the series of the goal; "" for all
}

func (g goal) met(s series) bool {
	if g.Of != "" && g.Of != s.Name {
		return true
	}
	return g.AtLeast == (s.median() >= g.Value) || s.median() == g.Value
}

// series holds the values of one thing: one for each round that counted, or only one.
type series struct {
	Name   string    `json:"name"`
	Values []float64 `json:"values"`
}

// median returns the middle of the values, NaN when there are none.
func (s series) median() float64 { return median(s.Values) }

func one(name string, value float64) series { return series{name, []float64{value}} }

// median returns the middle of values, the mean of the two in the middle of an
// even number, NaN when there are none.
func median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	values = slices.Sorted(slices.Values(values))
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}

// quarters returns the values between which the middle half of them lies.
func quarters(values []float64) (low, high float64) {
	values = slices.Sorted(slices.Values(values))
	n := len(values) - 1
	return values[(n+2)/4], values[n-(n+2)/4]
}

// cell returns the median, with the middle half of the values when there are enough of them.
func (f figure) cell(name string) string {
	for _, s := range f.Series {
		if s.Name == name && len(s.Values) >= manyRounds {
			low, high := quarters(s.Values)
			return fmt.Sprintf("%s (%s to %s)", number(s.median()), number(low), number(high))
		}
	}
	return number(f.median(name))
}

// manyRounds are enough for a spread.
const manyRounds = 4

// compare says how a quantity of one thing compares with that of another, round by round. It warns when the
// rounds differ more than the two things do.
func compare(what string, ratios []float64) string {
	text := fmt.Sprintf("%s: %.2f, median of %d pairs of rounds.", what, median(ratios), len(ratios))
	if len(ratios) < manyRounds {
		return text + " WARNING: too few for a spread."
	}
	low, high := quarters(ratios)
	text += fmt.Sprintf(" The middle half of them is %.2f to %.2f.", low, high)
	if low < 1 && high > 1 {
		text += " WARNING: they differ more than the two sides do, so neither is faster."
	}
	return text
}

// number shows three digits of small numbers and no fraction of large ones.
func number(v float64) string {
	switch size := math.Abs(v); {
	case math.IsNaN(v):
		return ""
	case v == math.Trunc(v) || size >= 100:
		return strconv.FormatFloat(math.Round(v), 'f', -1, 64)
	case size >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

// heading returns the figure's name with its unit.
func (f figure) heading() string {
	if f.Unit == "" {
		return f.Name
	}
	return f.Name + ", " + f.Unit
}

// median returns the median of the series with this name; NaN when there is none.
func (f figure) median(name string) float64 {
	for _, s := range f.Series {
		if s.Name == name {
			return s.median()
		}
	}
	return math.NaN()
}

// names returns the names of the series of all figures, in their order.
func (p part) names() []string {
	var names []string
	for _, f := range p.Figures {
		for _, s := range f.Series {
			if !slices.Contains(names, s.Name) {
				names = append(names, s.Name)
			}
		}
	}
	return names
}

// verdicts returns, for each goal, whether it was met.
func (r report) verdicts() []string {
	var all []string
	for _, p := range r.Parts {
		for _, f := range p.Figures {
			if f.Goal == nil {
				continue
			}
			verdict := "met"
			for _, s := range f.Series {
				if !f.Goal.met(s) {
					verdict = fmt.Sprintf("NOT met by %s: %s", s.Name, number(s.median()))
					break
				}
			}
			all = append(all, fmt.Sprintf("goal %s of %s: %s", f.Goal.text(f.Unit), f.Name, verdict))
		}
	}
	return all
}

func (g goal) text(unit string) string {
	sign := "≤ "
	if g.AtLeast {
		sign = "≥ "
	}
	return strings.TrimSpace(sign + number(g.Value) + " " + unit)
}

// writeTable writes the medians as a table, with their spread.
func (r results) writeTable(w io.Writer) error {
	for _, report := range r.Reports {
		fmt.Fprintf(w, "\n%s: %s\n", report.Name, report.About)
		for _, p := range report.Parts {
			table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
			fmt.Fprint(table, "\n", p.Of)
			for _, f := range p.Figures {
				fmt.Fprint(table, "\t", f.heading())
			}
			fmt.Fprintln(table)
			for _, name := range p.names() {
				fmt.Fprint(table, name)
				for _, f := range p.Figures {
					fmt.Fprint(table, "\t", f.cell(name))
				}
				fmt.Fprintln(table)
			}
			if err := table.Flush(); err != nil {
				return err
			}
		}
		fmt.Fprintf(w, "\n%s\n", strings.Join(append([]string{report.Result}, report.verdicts()...), "\n"))
	}

	_, err := fmt.Fprintf(w, "\n%s; %s\n", r.Machine, r.At.Format(time.RFC3339))
	return err
}

// writeJSON writes the values of every round.
func (r results) writeJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(r)
}
