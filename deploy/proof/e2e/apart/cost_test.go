package apart

import (
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/proof/e2e"
	"example.com/checkout/deploy/standin/devstack"
	"example.com/checkout/storage/pgtemp"
	"example.com/checkout/storage/storagetest/must"
)

// A count is what one thing costs in the service's database. BEGIN and COMMIT are statements too.
type count struct{ statements, transactions int }

// most is what a paid session may cost. A number that changes here is a change of the service's speed.
var most = map[string]count{
	"a create, with its row in the log of requests":                           {5, 3},
	"the page of a new session":                                               {2, 2},
	"a payment: form, charge, payout, two deliveries and the page afterwards": {21, 21},
	"a delivery of those two":                                                 {2, 2},
	"ten seconds without a request":                                           {10, 10},
}

// What a paid session may cost in Temporal, its two deliveries included: changes of a run that Temporal stores;
// actions, which Temporal Cloud would count against a namespace's rate; the events of the session's history, its
// payout's included; and those of a delivery's: one workflow task, and a marker of the attempt.
var mostOfTemporal = [4]int64{19, 12, 27, 6}

// TestCost_OfAPaidSession counts what PostgreSQL logs. A busy computer may add a statement, so the best of some tries
// counts.
func TestCost_OfAPaidSession(t *testing.T) {
	t.Parallel()
	ports := must.Get(pgtemp.FreePorts(1))(t)
	metrics := fmt.Sprintf("127.0.0.1:%d", ports[0])
	stack := e2e.OwnStack(t, devstack.Options{
		RetrySchedule: e2e.SharedSchedule, Env: []string{"CHECKOUT_RECONCILE_INTERVAL=1h"}, TemporalMetrics: metrics,
	})
	m := e2e.NewMerchant(t, stack)
	log := logStatements(t, stack)
	best := map[string][]statement{}
	session := ""
	events := 0
	measure := func(what string, settle time.Duration, do func()) []statement {
		log() // what came before does not count
		do()
		time.Sleep(settle)
		got := log()
		if settle < idleTime {
			got = slices.DeleteFunc(got, func(s statement) bool { return background.MatchString(s.text) })
		}
		if old, ok := best[what]; !ok || len(got) < len(old) {
			best[what] = got
		}
		return got
	}

	// A busy computer may give a run another workflow task, and several runs one after another.
	least := mostOfTemporal
	for i := range least {
		least[i] = math.MaxInt64
	}
	cheap := func() bool {
		return !slices.ContainsFunc([]int{0, 1, 2, 3}, func(i int) bool { return least[i] > mostOfTemporal[i] })
	}
	for n := 0; n < 3 || n < 12 && !cheap(); n++ {
		before := actionsOf(t, metrics)
		measure("a create, with its row in the log of requests", logTime, func() {
			session = m.Must(http.StatusCreated, http.MethodPost, "/v1/checkout", e2e.Terms).Field("id").(string)
		})
		measure("the page of a new session", logTime, func() { e2e.Ask(t, http.MethodGet, stack.PageURL()+"/"+session, "") })
		measure("a payment: form, charge, payout, two deliveries and the page afterwards", logTime, func() {
			m.MustPay(session, e2e.CardSucceeds)
			events += 2
			m.Arrivals(events, time.Minute)
		})
		changes, paid, delivered := historiesOf(t, stack, session)
		for i, now := range [4]int64{changes, actionsOf(t, metrics) - before, paid, slices.Max(delivered)} {
			least[i] = min(least[i], now)
		}
	}
	for range 2 { // mail is looked for every five seconds, so ten seconds and a moment may see a third look
		measure("ten seconds without a request", idleTime, func() {})
	}
	for _, s := range best["a payment: form, charge, payout, two deliveries and the page afterwards"] {
		if strings.Contains(s.text, "webhook_attempt") {
			best["a delivery of those two"] = append(best["a delivery of those two"], s)
		}
	}

	for what, most := range most {
		got := best[what]
		n := count{len(got), transactionsOf(got)}
		if what == "a delivery of those two" {
			n = count{n.statements / 2, n.transactions / 2}
		}
		t.Logf("%s: %+v", what, n)
		if n.statements > most.statements || n.transactions > most.transactions || n.statements == 0 {
			t.Errorf("%s: %+v, not %+v:\n%v", what, n, most, got)
		}
	}
	t.Logf("state transitions, actions, events of the session and of a delivery: %v", least)
	require.True(t, cheap(), "%v of Temporal, not %v", least, mostOfTemporal)
	require.Positive(t, least[1], "actions are counted")
}

const (
	logTime  = 2 * time.Second // the log of requests is written once a second
	idleTime = 10 * time.Second
)

// background are the statements that come without a request.
var background = regexp.MustCompile(`-- ping|WHERE callbacks > 0 AND settle_at|(FROM|UPDATE) mail |` +
	`payout_address WHERE next_at <=|FROM current_setting\(|pg_stat|FROM treasury_account|FROM installation`)

// statement is a statement of the service with the transaction that it was in.
type statement struct{ transaction, text string }

func (s statement) String() string { return s.transaction + " " + s.text + "\n" }

func transactionsOf(all []statement) int {
	ids := map[string]bool{}
	for _, s := range all {
		ids[s.transaction] = true
	}
	return len(ids)
}

// logStatements makes PostgreSQL log every statement. It returns a function that returns the new ones of the service.
func logStatements(t *testing.T, stack *devstack.Stack) func() []statement {
	for _, sql := range []string{
		`ALTER SYSTEM SET log_line_prefix = '~~%d/%a/%v '`, `ALTER SYSTEM SET log_statement = 'all'`,
		`ALTER SYSTEM SET log_parameter_max_length = 0`, `SELECT pg_reload_conf()`,
	} {
		e2e.Exec(t, stack, sql)
	}
	time.Sleep(logTime)

	read := 0
	return func() (all []statement) {
		content := must.Get(os.ReadFile(filepath.Join(filepath.Dir(stack.EnvironmentFile()), "postgres", "postgres.log")))(t)
		text := strings.Join(strings.Fields(string(content[read:])), " ")
		read = len(content)
		for entry := range strings.SplitSeq(text, "~~") {
			logged, ours := strings.CutPrefix(entry, "checkout/checkout/")
			transaction, line, _ := strings.Cut(logged, " ")
			if sql, ok := strings.CutPrefix(line, "LOG: "); ours && ok {
				all = append(all, statement{transaction, sql})
			}
		}
		return all
	}
}

// historiesOf adds up the state transitions of the session's run and of those of its deliveries, and counts the events
// of each.
func historiesOf(t *testing.T, stack *devstack.Stack, session string) (transitions, inSession int64, inDeliveries []int64) {
	c := e2e.TemporalClient(t, stack)
	deliveries := strings.Fields(e2e.Query[string](t, stack, `
		SELECT string_agg(d.id, ' ') FROM webhook_delivery d JOIN event e ON e.id = d.event_id
		WHERE e.session_id = $1`, session))
	for _, id := range append(deliveries, session) {
		require.NoError(t, c.GetWorkflow(t.Context(), id, "").Get(t.Context(), nil), "it ends")
		run := must.Get(c.DescribeWorkflowExecution(t.Context(), id, ""))(t)
		transitions += run.GetWorkflowExecutionInfo().GetStateTransitionCount()
		inDeliveries = append(inDeliveries, run.GetWorkflowExecutionInfo().GetHistoryLength())
	}
	return transitions, inDeliveries[len(deliveries)], inDeliveries[:len(deliveries)]
}

var actionLine = regexp.MustCompile(`(?m)^action\{[^}]*\} (\S+)$`)

// actionsOf adds up the actions that Temporal's server at the address metrics has counted so far.
func actionsOf(t *testing.T, metrics string) (n int64) {
	text := e2e.Ask(t, http.MethodGet, "http://"+metrics+"/metrics", "").Body
	for _, line := range actionLine.FindAllSubmatch(text, -1) {
		count := must.Get(strconv.ParseFloat(string(line[1]), 64))(t)
		n += int64(count)
	}
	return n
}
