package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

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
	require.Equal(t, map[string]float64{actions: 7, frontendRPCs: 5, historyRPCs: 6, transitions: 8}, got)
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
