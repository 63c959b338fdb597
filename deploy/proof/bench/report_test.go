package main

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// sample returns a report with every kind of content.
func sample() results {
	return results{
		At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Machine: "a computer",
		Reports: []report{{
			Name: "paid", About: "whole sessions, against <nothing> & nobody", Result: strings.Repeat("It is what it is. ", 12),
			Parts: []part{
				{Of: "way", Figures: []figure{
					{Name: "n", Series: []series{one("ours", 300), one("bare", 400)}},
					{Name: "rate", Unit: "a second", Goal: &goal{Value: 9, AtLeast: true, Of: "ours"}, Series: []series{{"ours", []float64{9.5, 12.25, 10, 10}}, {"bare", []float64{17, 18}}}},
					{Name: "p99", Unit: "ms", Goal: &goal{Value: 100}, Series: []series{{"ours", []float64{120, 130, 110}}, one("bare", 90)}},
					{Name: "CPU", Unit: "ms", Series: []series{one("ours", 0)}},
				}},
				{Of: "one", Figures: []figure{{Name: "weight", Unit: "bytes", Series: []series{one("a thing with a name that is much longer than its place", 123456)}}}},
			},
		}},
	}
}

func TestTable_ShowsMediansAndGoals(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	require.NoError(t, sample().writeTable(&out))
	lines := strings.Split(out.String(), "\n")
	require.Contains(t, lines, "way   n    rate, a second  p99, ms  CPU, ms")
	require.Contains(t, lines, "ours  300  10 (10 to 10)   120      0")
	require.Contains(t, lines, "bare  400  17.5            90       ")
	require.Contains(t, lines, "goal ≥ 9 a second of rate: met")
	require.Contains(t, lines, "goal ≤ 100 ms of p99: NOT met by ours: 120")
}

func TestCompare_WarnsOfASpreadThatIsWiderThanTheDifference(t *testing.T) {
	t.Parallel()
	require.Equal(t, "ours / bare: 1.25, median of 5 pairs of rounds. The middle half of them is 1.20 to 1.30.",
		compare("ours / bare", []float64{0.5, 1.3, 1.2, 1.25, 9}))
	require.Contains(t, compare("", []float64{0.5, 1.3, 1.2, 0.9, 9}), "WARNING: they differ more")
	require.Contains(t, compare("", []float64{1.3, 1.2, 1.25}), "WARNING: too few")
}

func TestMedian(t *testing.T) {
	t.Parallel()
	require.InDelta(t, 2, median([]float64{3, 1, 2}), 0)
	require.InDelta(t, 2.5, median([]float64{4, 1, 2, 3}), 0)
	require.True(t, math.IsNaN(median(nil)))
}
