package main

import (
	"bytes"
	"flag"
	"io"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/chaos/invariant"
	"example.com/checkout/deploy/devstack"
)

// short asks for the short form of the chaos run.
var short = flag.Bool("chaos", false, "run the short form of the chaos run, some minutes")

func TestMain(m *testing.M) {
	devstack.RunCommand()
	flag.Parse()
	os.Exit(m.Run())
}

func TestParseRun_SaysWhatToChange(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"now"}, `unknown argument "now"; -help lists the flags`},
		{[]string{"-every", "1ms"}, "-every must be at least 100ms"},
		{[]string{"-customers", "0"}, "-customers must be at least 1"},
		{[]string{"-kinds", "flood"}, "-kinds: there is no kind \"flood\"; there are\n" + kindNames()},
	} {
		_, err := parseRun(c.args, io.Discard)
		require.EqualError(t, err, c.want)
	}
	o, err := parseRun([]string{"-kinds", "worker,net-cut", "-seed", "7"}, io.Discard)
	require.NoError(t, err)
	require.Len(t, o.kinds, 4, "worker is all that begin so")
	require.EqualValues(t, 7, o.seed)
	o, err = parseRun(nil, io.Discard)
	require.NoError(t, err)
	require.Equal(t, len(faultKinds), len(o.kinds))
	require.NotZero(t, o.seed)
}

func TestRunReport_SaysWhatHappened(t *testing.T) {
	t.Parallel()
	r := runReport{
		Seed: 7, Load: 10 * time.Second, Sessions: 20, Statuses: map[string]int{"expired": 5, "completed": 15}, Rest: &invariant.Rest{After: time.Second},
		Faults: map[string]int{"api-kill": 2}, Calls: map[string]map[string]int{"create": {"ok": 20, "unknown": 1}},
		Played: map[string]map[string]int{"pay × timer": {"completed": 1, "expired": 2}}, Violations: 1,
		Invariants: []invariant.Result{{Invariant: invariant.Invariant{Number: 5, Title: "charged once"}, Checked: 15, Violations: []invariant.Violation{{ID: "cs_1", Text: "was charged twice"}}}},
	}
	var out bytes.Buffer
	require.NoError(t, r.write("", &out))
	for _, line := range []string{
		"seed 7: 10s under load, 20 sessions (2.0 a second), 0 deliveries, 0 attempts, 2 faults\n", "at rest 1s after the last fault",
		"sessions: 15 completed, 5 expired", "faults: 2 api-kill\n", "create  20  0     1\n",
		"pay × timer     1 completed, 2 expired\n", " 5  cs_1  was charged twice\n",
	} {
		require.Contains(t, out.String(), line)
	}
}

// TestRun_TheServiceKeepsItsWord is the short form of the run: at most half a minute of faults,
// also on a busy computer. The command has the long form.
func TestRun_TheServiceKeepsItsWord(t *testing.T) {
	t.Parallel()
	if !*short {
		t.Skip("takes minutes: -chaos runs it")
	}
	o, err := parseRun([]string{"-sessions", "150", "-deliveries", "150", "-faults", "12", "-every", "1600ms", "-for", "25s", "-within", "2m", "-data", t.TempDir(), "-histories", "100"}, io.Discard)
	require.NoError(t, err)
	var progress, out bytes.Buffer
	err = runChaos(t.Context(), o, &out, &progress)
	t.Logf("%s%s", progress.String(), out.String())
	require.NoError(t, err)
	require.Regexp(t, `sessions: \d+ completed`, out.String(), "customers can pay")
}
