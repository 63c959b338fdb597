package apart

import (
	"fmt"
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

// What a paid session may cost in Temporal, its two deliveries included: changes of a run that Temporal stores, and what
// Temporal Cloud would count against a namespace's rate.
const (
	transitions = 19
	actions     = 12
	// The events of the session's history, its payout's included, and of a delivery's: one workflow task, and a marker of
	// the attempt.
	sessionEvents  = 27
	deliveryEvents = 6
)

// TestCost_OfAPaidSession counts what PostgreSQL logs. A busy computer may add a statement, so the best of some tries
// counts.
func TestCost_OfAPaidSession(t *testing.T) {
	t.Parallel()
	ports, err := pgtemp.FreePorts(1)
	require.NoError(t, err)
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
	var changes, acted, inSession, inDelivery []int64
	cheap := func() bool {
		return slices.Min(inSession) <= sessionEvents && slices.Min(inDelivery) <= deliveryEvents &&
			slices.Min(changes) <= transitions && slices.Min(acted) <= actions
	}
	for len(changes) < 3 || len(changes) < 12 && !cheap() {
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
		n, paid, delivered := historiesOf(t, stack, session)
		changes, inSession, inDelivery = append(changes, n), append(inSession, paid), append(inDelivery, slices.Max(delivered))
		acted = append(acted, actionsOf(t, metrics)-before)
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
	t.Logf("state transitions: %v, actions: %v, events: %v and %v", changes, acted, inSession, inDelivery)
	require.LessOrEqual(t, slices.Min(inSession), int64(sessionEvents))
	require.LessOrEqual(t, slices.Min(inDelivery), int64(deliveryEvents))
	require.LessOrEqual(t, slices.Min(changes), int64(transitions))
	require.LessOrEqual(t, slices.Min(acted), int64(actions))
	require.Positive(t, slices.Min(acted))
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
	t.Helper()
	for _, sql := range []string{
		`ALTER SYSTEM SET log_line_prefix = '~~%d/%a/%v '`, `ALTER SYSTEM SET log_statement = 'all'`,
		`ALTER SYSTEM SET log_parameter_max_length = 0`, `SELECT pg_reload_conf()`,
	} {
		e2e.Exec(t, stack, sql)
	}
	time.Sleep(logTime)

	read := 0
	return func() (all []statement) {
		content, err := os.ReadFile(filepath.Join(filepath.Dir(stack.EnvironmentFile()), "postgres", "postgres.log"))
		require.NoError(t, err)
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

// historiesOf adds up the state transitions of the session's run and of those of its deliveries, and counts the events of
// each.
func historiesOf(t *testing.T, stack *devstack.Stack, session string) (transitions, inSession int64, inDeliveries []int64) {
	t.Helper()
	c := e2e.TemporalClient(t, stack)
	deliveries := strings.Fields(e2e.Query[string](t, stack, `
		SELECT string_agg(d.id, ' ') FROM webhook_delivery d JOIN event e ON e.id = d.event_id
		WHERE e.session_id = $1`, session))
	for _, id := range append(deliveries, session) {
		require.NoError(t, c.GetWorkflow(t.Context(), id, "").Get(t.Context(), nil), "it ends")
		run, err := c.DescribeWorkflowExecution(t.Context(), id, "")
		require.NoError(t, err)
		transitions += run.GetWorkflowExecutionInfo().GetStateTransitionCount()
		inDeliveries = append(inDeliveries, run.GetWorkflowExecutionInfo().GetHistoryLength())
	}
	return transitions, inDeliveries[len(deliveries)], inDeliveries[:len(deliveries)]
}

var actionLine = regexp.MustCompile(`(?m)^action\{[^}]*\} (\S+)$`)

// actionsOf adds up the actions that Temporal's server at the address metrics has counted so far.
func actionsOf(t *testing.T, metrics string) (n int64) {
	t.Helper()
	text := e2e.Ask(t, http.MethodGet, "http://"+metrics+"/metrics", "").Body
	for _, line := range actionLine.FindAllSubmatch(text, -1) {
		count, err := strconv.ParseFloat(string(line[1]), 64)
		require.NoError(t, err)
		n += int64(count)
	}
	return n
}
