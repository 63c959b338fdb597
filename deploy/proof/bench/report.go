package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// report is the result of one benchmark.
type report struct {
	Tables []table
	Result string // one sentence
}

// table has a line for each compared thing. The first column has the names of the things.
type table struct {
	columns []string // with units
	lines   []line
}

// line is a thing with the values of each other column: one for each round that counted, or only one.
type line struct {
	name   string
	values [][]float64
}

func (t *table) add(name string, values ...[]float64) { t.lines = append(t.lines, line{name, values}) }

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

// cell shows the median, with the middle half of the values when there are enough of them.
func cell(values []float64) string {
	if len(values) < manyRounds {
		return number(median(values))
	}
	low, high := quarters(values)
	return fmt.Sprintf("%s (%s to %s)", number(median(values)), number(low), number(high))
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

// write writes the medians as tables, with their spread.
func (r report) write(w io.Writer) error {
	for _, t := range r.Tables {
		aligned := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(aligned, "\n"+strings.Join(t.columns, "\t"))
		for _, l := range t.lines {
			fmt.Fprint(aligned, l.name)
			for _, values := range l.values {
				fmt.Fprint(aligned, "\t", cell(values))
			}
			fmt.Fprintln(aligned)
		}
		if err := aligned.Flush(); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "\n%s\n", r.Result)
	return err
}
