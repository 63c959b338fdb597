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
	of := func(values ...float64) []float64 { return values }
	ways := table{columns: []string{"way", "n", "rate, a second", "p99, ms", "CPU, ms"}}
	ways.add("ours", of(300), of(9.5, 12.25, 10, 10), of(120, 130, 110), of(0))
	ways.add("bare", of(400), of(17, 18), of(90), nil)
	long := table{columns: []string{"one", "weight, bytes"}}
	long.add("a thing with a name that is much longer than its place", of(123456))
	got := report{Result: "It is what it is.", Tables: []table{ways, long}}
	var out bytes.Buffer
	require.NoError(t, got.write(&out))
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
