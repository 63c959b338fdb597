package main

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTable_ShowsMedians(t *testing.T) {
	t.Parallel()
	got := report{
		Result: "It is what it is.",
		Parts: []part{
			{Of: "way", Figures: []figure{
				{Name: "n", Series: []series{one("ours", 300), one("bare", 400)}},
				{Name: "rate", Unit: "a second", Series: []series{{"ours", []float64{9.5, 12.25, 10, 10}}, {"bare", []float64{17, 18}}}},
				{Name: "p99", Unit: "ms", Series: []series{{"ours", []float64{120, 130, 110}}, one("bare", 90)}},
				{Name: "CPU", Unit: "ms", Series: []series{one("ours", 0)}},
			}},
			{Of: "one", Figures: []figure{{Name: "weight", Unit: "bytes", Series: []series{one("a thing with a name that is much longer than its place", 123456)}}}},
		},
	}
	var out bytes.Buffer
	require.NoError(t, got.writeTable(&out))
	lines := strings.Split(out.String(), "\n")
	require.Contains(t, lines, "way   n    rate, a second  p99, ms  CPU, ms")
	require.Contains(t, lines, "ours  300  10 (10 to 10)   120      0")
	require.Contains(t, lines, "bare  400  17.5            90       ")
	require.Contains(t, lines, got.Result)
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
