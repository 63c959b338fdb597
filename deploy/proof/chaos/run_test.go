package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/proof/chaos/invariant"
	"example.com/checkout/deploy/standin/devstack"
)

// long asks for the short form of the chaos run.
var long = flag.Bool("long", false, "run the short form of the chaos run, some minutes")

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
	if !*long {
		t.Skip("takes minutes: -long runs it")
	}
	o, err := parseRun([]string{"-sessions", "150", "-deliveries", "150", "-faults", "12", "-every", "1600ms", "-for", "25s", "-within", "2m", "-data", t.TempDir(), "-histories", "100"}, io.Discard)
	require.NoError(t, err)
	var progress, out bytes.Buffer
	if err := runChaos(t.Context(), o, &out, &progress); err != nil {
		t.Error(err) // before the long report
	}
	t.Logf("%s%s", progress.String(), out.String())
	require.Regexp(t, `sessions: \d+ completed`, out.String(), "customers can pay")
}

// TestRun_Live is the short form of the run with live mode.
func TestRun_Live(t *testing.T) {
	if !*long {
		t.Skip("takes minutes: -long runs it")
	}
	o, err := parseRun([]string{
		"-live", "-sessions", "60", "-deliveries", "1", "-payouts", "30", "-faults", "15", "-every", "1600ms", "-for", "45s",
		"-customers", "8", "-within", "5m", "-wait", "6m", "-data", t.TempDir(), "-histories", "30",
	}, io.Discard)
	require.NoError(t, err)
	var progress, out bytes.Buffer
	if err := runChaos(t.Context(), o, &out, &progress); err != nil {
		t.Error(err) // before the long report
	}
	t.Logf("%s%s", progress.String(), out.String())
	for _, currency := range invariant.LiveCurrencies {
		require.Regexp(t, `live payouts: .*\d+ `+string(currency)+` sent`, out.String())
	}
}

func TestParseRun_OnlyARunWithLiveModeHasItsFaults(t *testing.T) {
	t.Parallel()
	_, err := parseRun([]string{"-kinds", "bitcoin"}, io.Discard)
	require.ErrorContains(t, err, `there is no kind "bitcoin"`)
	o, err := parseRun([]string{"-live", "-kinds", "ethereum,worker-dies"}, io.Discard)
	require.NoError(t, err)
	require.Len(t, o.kinds, 9)
	o, err = parseRun([]string{"-live"}, io.Discard)
	require.NoError(t, err)
	require.Len(t, o.kinds, len(faultKinds)+len(liveFaultKinds))
}

func TestRun_AnUnknownCommandSaysWhichThereAre(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{nil, {"walk"}} {
		require.ErrorContains(t, run(t.Context(), args), "break a stack of its own", "%v", args)
	}
	require.EqualError(t, run(t.Context(), []string{"run", "now"}), `unknown argument "now"; -help lists the flags`)
	require.EqualError(t, run(t.Context(), []string{"check", "now"}), `unknown argument "now"; -help lists the flags`)
}

func TestRunReport_IsWrittenAsJSONWhereItIsAskedFor(t *testing.T) {
	t.Parallel()
	r := runReport{Seed: 7, Load: time.Second, Rest: &invariant.Rest{}}
	var out bytes.Buffer
	require.NoError(t, r.write("-", &out))
	var got runReport
	require.NoError(t, json.Unmarshal(out.Bytes(), &got), "nothing else is on standard output")
	require.Equal(t, r.Seed, got.Seed)

	file := filepath.Join(t.TempDir(), "report.json")
	out.Reset()
	require.NoError(t, r.write(file, &out))
	require.Contains(t, out.String(), "seed 7:", "words as well")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &got))
	require.Error(t, r.write(filepath.Join(file, "x"), &out), "no such directory")
}
