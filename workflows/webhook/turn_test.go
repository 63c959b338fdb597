package webhook_test

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/workflows/webhook"
)

// TestDecide holds the table of README.md of package workflows: each of its rows is one of these, and in this order.
func TestDecide(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	turn := func(made, try int) webhook.Turn {
		return webhook.Turn{RunID: "a", AttemptsMade: made, Try: try, Now: now}
	}
	local := webhook.Turn{RunID: "a", Try: 1, Local: true, Now: now}
	// made is a row whose run has made and counted attempts, the next of which is due.
	made := func(attempts, counted int, change ...func(*webhook.DeliverySnapshot)) webhook.DeliverySnapshot {
		s := webhook.DeliverySnapshot{Status: webhook.DeliveryPending, RunID: "a", Attempts: attempts, Counted: counted, Due: now}
		for _, f := range change {
			f(&s)
		}
		return s
	}
	is := func(status webhook.DeliveryStatus) func(*webhook.DeliverySnapshot) {
		return func(s *webhook.DeliverySnapshot) { s.Status = status }
	}
	by := func(runID string) func(*webhook.DeliverySnapshot) {
		return func(s *webhook.DeliverySnapshot) { s.RunID = runID }
	}
	in := func(wait time.Duration) func(*webhook.DeliverySnapshot) {
		return func(s *webhook.DeliverySnapshot) { s.Due = now.Add(wait) }
	}
	deleted := func(s *webhook.DeliverySnapshot) { s.Deleted = true }
	held := func(s *webhook.DeliverySnapshot) { s.Held = true }
	sending := func(s *webhook.DeliverySnapshot) { s.Sending = true }
	hurried := func(s *webhook.DeliverySnapshot) { s.Hurried = true }

	table := decisionTable(t)
	require.Len(t, table, 10, "each row of the table has a case here")
	for _, c := range []struct {
		row   int // of the table
		name  string
		found webhook.DeliverySnapshot
		turn  webhook.Turn
		want  webhook.Decision
	}{
		{1, "the endpoint was deleted", made(1, 1, deleted), turn(0, 2), webhook.Decision{Step: webhook.StepEnd}},
		{1, "the endpoint was deleted before a replay", made(6, 6, deleted, by("b"), is(webhook.DeliveryFailed)), local, webhook.Decision{Step: webhook.StepEnd}},
		{1, "the endpoint was deleted while on hold", made(1, 1, deleted, held), turn(0, 2), webhook.Decision{Step: webhook.StepEnd}},

		{2, "this run delivered it, and its report was lost", made(2, 2, is(webhook.DeliveryDelivered)), turn(0, 3), webhook.Decision{Step: webhook.StepEnd}},
		{2, "it was canceled", made(2, 2, is(webhook.DeliveryCanceled), held), turn(0, 3), webhook.Decision{Step: webhook.StepEnd}},

		{3, "the first run, on hold", made(0, 0, by(""), held), local, webhook.Decision{Step: webhook.StepPark, NewRun: true}},
		{3, "a replay, on hold", made(6, 6, by("b"), is(webhook.DeliveryFailed), held), local, webhook.Decision{Step: webhook.StepPark, NewRun: true}},

		{4, "the first run", made(0, 0, by("")), local, webhook.Decision{Step: webhook.StepBegin, Number: 1, NewRun: true}},
		{4, "a replay of what failed", made(6, 6, by("b"), is(webhook.DeliveryFailed)), local, webhook.Decision{Step: webhook.StepBegin, Number: 1, NewRun: true}},
		{4, "a replay of what was delivered", made(1, 0, by("b"), is(webhook.DeliveryDelivered)), local, webhook.Decision{Step: webhook.StepBegin, Number: 1, NewRun: true}},
		{4, "a run was terminated, and this is the next", made(3, 3, by("b"), in(time.Hour)), local, webhook.Decision{Step: webhook.StepBegin, Number: 1, NewRun: true}},
		{4, "a reset while an activity waits, which has its old input", made(4, 4, by("b"), in(time.Hour)), turn(3, 1), webhook.Decision{Step: webhook.StepBegin, Number: 1, NewRun: true}},

		{5, "the local attempt was refused", made(1, 0, in(30*time.Second)), turn(0, 1), webhook.Decision{Step: webhook.StepReport, Number: 1, Wait: 30 * time.Second}},
		{5, "the local attempt was refused, and is overdue", made(1, 0, in(-time.Hour)), turn(0, 1), webhook.Decision{Step: webhook.StepReport, Number: 1}},
		{5, "the local attempt was refused, and the next is wanted now, which the signal does", made(1, 0, in(time.Hour), hurried), turn(0, 1), webhook.Decision{Step: webhook.StepReport, Number: 1, Wait: time.Hour}},
		{5, "the local attempt was refused, and is on hold", made(1, 0, in(30*time.Second), held), turn(0, 1), webhook.Decision{Step: webhook.StepReport, Number: 1, Wait: 30 * time.Second}},
		{5, "the worker died in the local attempt", made(1, 0, in(45*time.Second), sending), turn(0, 1), webhook.Decision{Step: webhook.StepReport, Number: 1, Wait: 45 * time.Second}},

		{6, "the local activity again: its worker died in the attempt", made(1, 0, in(45*time.Second), sending), local, webhook.Decision{Step: webhook.StepReport, Number: 1, Wait: 45 * time.Second}},
		{6, "the local activity again: its worker died after the attempt", made(1, 0, in(20*time.Second)), local, webhook.Decision{Step: webhook.StepReport, Number: 1, Wait: 20 * time.Second}},

		{7, "a reset of the activity before attempt 2", made(1, 1, in(20*time.Second)), turn(0, 1), webhook.Decision{Step: webhook.StepAgain, NewRun: true}},
		{7, "a reset of the activity later", made(4, 4, in(time.Hour)), turn(0, 1), webhook.Decision{Step: webhook.StepAgain, NewRun: true}},
		{7, "a reset of the activity after the worker died in an attempt", made(4, 4, in(time.Hour), sending), turn(0, 1), webhook.Decision{Step: webhook.StepAgain, NewRun: true}},
		{7, "a reset of an activity that retry_now has scheduled", made(4, 4, in(time.Hour)), turn(2, 1), webhook.Decision{Step: webhook.StepAgain, NewRun: true}},
		{7, "a reset, whose first try no worker began", made(4, 4, in(time.Hour)), turn(0, 2), webhook.Decision{Step: webhook.StepAgain, NewRun: true}},

		{8, "Temporal handed out a task twice", made(2, 2, in(5*time.Minute)), turn(0, 3), webhook.Decision{Step: webhook.StepEarly, Wait: 5 * time.Minute}},
		{8, "Temporal handed out a task twice, and it is on hold", made(2, 2, in(5*time.Minute), held), turn(0, 3), webhook.Decision{Step: webhook.StepEarly, Wait: 5 * time.Minute}},
		{8, "a tenth of a second early", made(2, 2, in(100*time.Millisecond)), turn(0, 3), webhook.Decision{Step: webhook.StepEarly, Wait: 100 * time.Millisecond}},
		{8, "the answer to its note was lost", made(3, 3, in(time.Hour), sending), turn(2, 1), webhook.Decision{Step: webhook.StepEarly, Wait: time.Hour}},

		{9, "on hold when it is due", made(2, 2, held), turn(0, 3), webhook.Decision{Step: webhook.StepPark}},
		{9, "on hold when it is wanted now", made(2, 2, in(time.Hour), held, hurried), turn(0, 3), webhook.Decision{Step: webhook.StepPark}},

		{10, "it is due", made(2, 2), turn(0, 3), webhook.Decision{Step: webhook.StepBegin, Number: 3}},
		{10, "nearly due", made(2, 2, in(40*time.Millisecond)), turn(0, 3), webhook.Decision{Step: webhook.StepBegin, Number: 3}},
		{10, "retry_now", made(2, 2, in(time.Hour), hurried), turn(2, 1), webhook.Decision{Step: webhook.StepBegin, Number: 3}},
		{10, "the worker died in the attempt before", made(2, 2, sending), turn(0, 3), webhook.Decision{Step: webhook.StepBegin, Number: 3}},
		{10, "no worker began the tries before", made(2, 2), turn(0, 5), webhook.Decision{Step: webhook.StepBegin, Number: 3}},
		{10, "no worker began the first try", made(0, 0), turn(0, 2), webhook.Decision{Step: webhook.StepBegin, Number: 1}},
		{10, "after a reset of the activity", made(0, 0), turn(0, 1), webhook.Decision{Step: webhook.StepBegin, Number: 1}},
		{10, "the answer to its note was lost, and time has passed", made(3, 3, sending), turn(2, 1), webhook.Decision{Step: webhook.StepBegin, Number: 3}},
		{10, "local again: the endpoint was busy", made(0, 0, by("a")), local, webhook.Decision{Step: webhook.StepBegin, Number: 1}},
	} {
		require.Equal(t, c.want, c.found.Decide(c.turn), c.name)
		require.Equal(t, string(c.want.Step), table[c.row], "row %d of the table, %s", c.row, c.name)
	}
}

// decisionTable returns the step of each row of the table in README.md.
func decisionTable(t *testing.T) map[int]string {
	text, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(text), "## The delivery: what an attempt finds")
	require.True(t, found)
	steps := map[int]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| (\\d+) \\|.*\\| `(\\w+)` \\|").FindAllStringSubmatch(section, -1) {
		n, err := strconv.Atoi(row[1])
		require.NoError(t, err)
		steps[n] = row[2]
	}
	return steps
}
