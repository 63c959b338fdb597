package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"text/tabwriter"
)

// report is the result of one benchmark.
type report struct {
	Parts  []part
	Result string // one sentence
}

// part is a table. Each figure is a column, and each compared thing is a line.
type part struct {
	Of      string // the kind of the compared things, such as "way"
	Figures []figure
}

// figure is one quantity of several things.
type figure struct {
	Name   string
	Unit   string // "" for a count
	Series []series
}

// series holds the values of one thing: one for each round that counted, or only one.
type series struct {
	Name   string
	Values []float64
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

// writeTable writes the medians as a table, with their spread.
func (r report) writeTable(w io.Writer) error {
	for _, p := range r.Parts {
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
	_, err := fmt.Fprintf(w, "\n%s\n", r.Result)
	return err
}
