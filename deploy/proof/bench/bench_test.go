package main

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

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

func TestShop_CountsWhatDidNotArrive(t *testing.T) {
	t.Parallel()
	s := openShop(time.Millisecond)
	defer s.Close()
	ids := []string{"whd_1", "whd_2", "whd_3", "whd_1"}
	publish := func(ctx context.Context, i int) (string, error) {
		if ids[i] == "whd_2" {
			return ids[i], nil // it gets lost
		}
		return ids[i], post(ctx, &http.Transport{DisableKeepAlives: true}, s.URL, ids[i])
	}
	got, err := s.measure(t.Context(), stream{name: "some", count: 4}, 20*time.Millisecond, publish)
	require.NoError(t, err)
	require.Equal(t, ids, got.ids)
	require.Equal(t, 1, got.missed)
	require.Len(t, got.lags, 4)
	require.GreaterOrEqual(t, got.lags[1], 20*time.Millisecond, "what is missed counts until the end of the wait")
	require.Equal(t, 3, s.requests)
	require.Zero(t, s.open)
}

func TestTemporalCounters_SumsByRow(t *testing.T) {
	t.Parallel()
	got, err := temporalCounters(strings.NewReader(`# TYPE action counter
action{namespace="a"} 3
action{namespace="b"} 4
action_other{namespace="b"} 100
service_requests{operation="x",service_name="frontend"} 5
service_requests{operation="x",service_name="history"} 6
service_requests{operation="x",service_name="worker"} 100
state_transition_count_sum{namespace="a"} 100
state_transition_count_count{namespace="a"} 8
restarts 1
`))
	require.NoError(t, err)
	require.Equal(t, map[string]float64{"actions": 7, "frontend requests": 5, "history requests": 6, transitions: 8}, got)
	_, err = temporalCounters(strings.NewReader(`action{namespace="a"} many`))
	require.ErrorContains(t, err, "action")
}

// Each line of the first table of scale.md is a row of "bench cost", and each row is there.
func TestScale_NamesTheRows(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../release/scale.md")
	require.NoError(t, err)
	_, table, found := strings.Cut(string(text), "<!-- rows of bench cost -->\n")
	require.True(t, found)
	table, _, _ = strings.Cut(table, "\n\n")
	var named []string
	for _, line := range regexp.MustCompile(`(?m)^\| ([^|]+?) \| [0-9]`).FindAllStringSubmatch(table, -1) {
		named = append(named, line[1])
	}
	require.Equal(t, costRows(), named)
}
