package cost

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/proof/e2e"
	"example.com/checkout/deploy/standin/devstack"
)

// TestStatements_OfAPaidSession counts the statements in the service's database, BEGIN and COMMIT included. A change of
// this table is a change of the service's speed. A busy computer may add a statement, so the best of some tries counts.
func TestStatements_OfAPaidSession(t *testing.T) {
	t.Parallel()
	stack := e2e.OwnStack(t, devstack.Options{RetrySchedule: e2e.SharedSchedule, Env: []string{"CHECKOUT_RECONCILE_INTERVAL=1h"}})
	m := e2e.NewMerchant(t, stack)
	log := logStatements(t, stack)
	events := 0
	var session string
	rows := []struct {
		what string
		most int
		do   func()
	}{
		{"a create with its row in the log of requests", 5, func() {
			session = m.Must(http.StatusCreated, http.MethodPost, "/v1/checkout", e2e.Terms).Field("id").(string)
		}},
		{"the page of a new session", 6, func() { get(t, stack.PageURL()+"/"+session) }},
		{"a payment with its payout, two deliveries and the page of the result", 42, func() {
			m.MustPay(session, e2e.CardSucceeds)
			events += 2
			m.Arrivals(events, time.Minute)
		}},
	}
	const tries = 3
	best := make([][]string, len(rows))
	for range tries {
		for i, row := range rows {
			log() // what came before does not count
			row.do()
			time.Sleep(2 * time.Second) // the log of requests is written once a second
			if got := log(); best[i] == nil || len(got) < len(best[i]) {
				best[i] = got
			}
		}
	}
	for i, row := range rows {
		t.Logf("%s: %d statements", row.what, len(best[i]))
		require.LessOrEqual(t, len(best[i]), row.most, "%s:\n%s", row.what, strings.Join(best[i], "\n"))
		require.NotEmpty(t, best[i], "the log of PostgreSQL was not read")
	}
}

func get(t *testing.T, url string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	answer, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
}

// idle are the statements that come without a request.
var idle = regexp.MustCompile(`-- ping|WHERE callbacks > 0 AND settle_at|(FROM|UPDATE) mail |payout_address WHERE next_at <=|` +
	`FROM current_setting\(|pg_stat|FROM treasury_account|FROM installation|DETAIL:`)

// logStatements makes PostgreSQL log every statement. It returns a function that returns the new ones of requests.
func logStatements(t *testing.T, stack *devstack.Stack) func() []string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), stack.DatabaseURL())
	require.NoError(t, err)
	for _, sql := range []string{
		`ALTER SYSTEM SET log_line_prefix = '@%d/'`, `ALTER SYSTEM SET log_statement = 'all'`, `SELECT pg_reload_conf()`,
	} {
		_, err = conn.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	require.NoError(t, conn.Close(context.Background()))
	time.Sleep(2 * time.Second)

	read := 0
	return func() (all []string) {
		content, err := os.ReadFile(filepath.Join(filepath.Dir(stack.EnvironmentFile()), "postgres", "postgres.log"))
		require.NoError(t, err)
		text := strings.Join(strings.Fields(string(content[read:])), " ")
		read = len(content)
		for entry := range strings.SplitSeq(text, "@") {
			statement, ours := strings.CutPrefix(entry, "checkout/LOG: ")
			if ours && !idle.MatchString(statement) {
				all = append(all, statement)
			}
		}
		return all
	}
}
