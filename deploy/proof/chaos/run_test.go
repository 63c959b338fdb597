package main

import (
	"bytes"
	"flag"
	"io"
	"os"
	"testing"

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

// TestRun_TheServiceKeepsItsWord is the short form of the run: at most half a minute of faults,
// also on a busy computer. The command has the long form.
func TestRun_TheServiceKeepsItsWord(t *testing.T) {
	t.Parallel()
	out := shortRun(t, "-sessions", "150", "-deliveries", "150", "-faults", "12", "-for", "25s", "-within", "2m", "-histories", "100")
	require.Regexp(t, `sessions: \d+ completed`, out, "customers can pay")
}

// TestRun_Live is the short form of the run with live mode.
func TestRun_Live(t *testing.T) {
	out := shortRun(t, "-live", "-sessions", "60", "-deliveries", "1", "-payouts", "30", "-faults", "15", "-for", "45s",
		"-customers", "8", "-within", "5m", "-wait", "6m", "-histories", "30")
	for _, currency := range invariant.LiveCurrencies {
		require.Regexp(t, `live payouts: .*\d+ `+string(currency)+` sent`, out)
	}
}

// shortRun returns the report.
func shortRun(t *testing.T, args ...string) string {
	if !*long {
		t.Skip("takes minutes: -long runs it")
	}
	o, err := parseRun(append(args, "-every", "1600ms", "-data", t.TempDir()), io.Discard)
	require.NoError(t, err)
	var progress, out bytes.Buffer
	if err := runChaos(t.Context(), o, &out, &progress); err != nil {
		t.Error(err) // before the long report
	}
	t.Logf("%s%s", progress.String(), out.String())
	return out.String()
}

func TestParseRun_DrawsTheKindsThatItNames(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args  []string
		kinds int
	}{
		{[]string{"-kinds", "worker,net-cut"}, 4}, // worker is all that begin so
		{nil, len(faultKinds)},
		{[]string{"-live", "-kinds", "ethereum,worker-dies"}, 9},
		{[]string{"-live"}, len(faultKinds) + len(liveFaultKinds)},
	} {
		o, err := parseRun(c.args, io.Discard)
		require.NoError(t, err)
		require.Len(t, o.kinds, c.kinds, "%v", c.args)
		require.NotZero(t, o.seed)
	}
	_, err := parseRun([]string{"-kinds", "bitcoin"}, io.Discard)
	require.ErrorContains(t, err, `there is no kind "bitcoin"`, "only a run with live mode has it")
}

func TestCheck_WithoutPostgresSaysSoAndNoPassword(t *testing.T) {
	t.Parallel()
	o, err := parseCheck(nil, []string{"DATABASE_URL=postgres://u:hidden@127.0.0.1:1/db"}, io.Discard)
	require.NoError(t, err)
	err = check(t.Context(), o, io.Discard, io.Discard)
	require.ErrorContains(t, err, "no answer from PostgreSQL")
	require.NotContains(t, err.Error(), "hidden")
}
