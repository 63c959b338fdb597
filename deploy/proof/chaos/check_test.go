package main

import (
	"bytes"
	"encoding/json"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/proof/chaos/invariant"
)

const databaseURL = "DATABASE_URL=postgres://u:hidden@127.0.0.1:1/db"

func TestParseCheck_ReadsFlagsAndSettings(t *testing.T) {
	t.Parallel()
	o, err := parseCheck([]string{"-receiver-log", "a", "-receiver-log", "b", "-schedule", "1s,2s,3s,4s,5s", "-strict", "-wait", "1m"},
		[]string{databaseURL, "TEMPORAL_NAMESPACE=other"}, io.Discard)
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b"}, o.sources.ReceiverLogs)
	require.Equal(t, 4*time.Second, o.sources.Schedule[3])
	require.True(t, o.sources.Strict)
	require.Equal(t, "other", o.sources.Namespace)
	require.Equal(t, time.Minute, o.wait)

	o, err = parseCheck(nil, []string{databaseURL, "CHECKOUT_TEST_RETRY_SCHEDULE=2s,2s,3s,4s,5s"}, io.Discard)
	require.NoError(t, err)
	require.Equal(t, 2*time.Second, o.sources.Schedule[0], "the stack's own settings say it too")
}

func TestParseCheck_SaysWhatToChange(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args, environment []string
		want              string
	}{
		{nil, nil, "settings:\nDATABASE_URL is not set"},
		{[]string{"-schedule", "1s"}, []string{databaseURL}, "-schedule must be 5 delays, not 1"},
		{[]string{"now"}, []string{databaseURL}, `unknown argument "now"; -help lists the flags`},
	} {
		_, err := parseCheck(c.args, c.environment, io.Discard)
		require.EqualError(t, err, c.want)
	}
}

func TestCheck_WithoutPostgresSaysSoAndNoPassword(t *testing.T) {
	t.Parallel()
	o, err := parseCheck(nil, []string{databaseURL}, io.Discard)
	require.NoError(t, err)
	err = check(t.Context(), o, io.Discard, io.Discard)
	require.ErrorContains(t, err, "no answer from PostgreSQL")
	require.NotContains(t, err.Error(), "hidden")
}

func newReport() report {
	return report{
		Unsettled: "1 pending deliveries", Moved: 2, Violations: 1,
		Invariants: []invariant.Result{
			{Invariant: invariant.Invariant{Number: 6, Title: "events reach everybody", Names: "event"}, Checked: 12, Violations: []invariant.Violation{{ID: "evt_1", Text: "got lost"}}},
			{Invariant: invariant.Invariant{Number: 12, Title: "nothing leaves", Names: "delivery"}, NotChecked: "no log", Violations: []invariant.Violation{}},
		},
	}
}

func TestReport_EndsWithTheTable(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	require.NoError(t, newReport().print(&out))
	require.Equal(t, ` 6  evt_1  got lost

  invariant  checked  violations
          6       12           1  events reach everybody
         12        –           –  not checked: no log

not at rest: 1 pending deliveries
2 deliveries moved while they were read and were compared with nobody
`, out.String())
}

func TestReport_IsJSON(t *testing.T) {
	t.Parallel()
	text, err := json.Marshal(newReport())
	require.NoError(t, err)
	require.JSONEq(t, `{"at":"0001-01-01T00:00:00Z","unsettled":"1 pending deliveries","moved":2,"violations":1,"invariants":[
		{"number":6,"title":"events reach everybody","names":"event","checked":12,"violations":[{"id":"evt_1","text":"got lost"}]},
		{"number":12,"title":"nothing leaves","names":"delivery","checked":0,"not_checked":"no log","violations":[]}]}`, string(text))
}
