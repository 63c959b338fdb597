package cost

import (
	"bufio"
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

// TestStatements_OfAPaidSession holds the number of statements and transactions in the service's database.
func TestStatements_OfAPaidSession(t *testing.T) {
	t.Parallel()
	stack := e2e.OwnStack(t, devstack.Options{RetrySchedule: e2e.SharedSchedule})
	m := e2e.NewMerchant(t, stack)
	pay := func() string {
		before, _ := m.Receiver.Arrivals()
		session := m.Must(http.StatusCreated, http.MethodPost, "/v1/checkout", e2e.Terms).Field("id").(string)
		m.MustPay(session, e2e.CardSucceeds)
		m.Arrivals(len(before)+2, time.Minute)
		time.Sleep(time.Second)
		return session
	}
	pay()
	log := logStatements(t, stack)
	before := commits(t, stack)
	pay()
	t.Log(commits(t, stack) - before)
	for _, s := range log() {
		t.Log(s)
	}
}

func commits(t *testing.T, stack *devstack.Stack) int64 {
	time.Sleep(2 * time.Second)
	return e2e.Query[int64](t, stack, `SELECT xact_commit FROM pg_stat_database WHERE datname = 'checkout'`)
}

func logStatements(t *testing.T, stack *devstack.Stack) func() []string {
	conn, err := pgx.Connect(t.Context(), stack.DatabaseURL())
	require.NoError(t, err)
	for _, sql := range []string{
		`ALTER SYSTEM SET log_line_prefix = '@%d/%a/%p '`, `ALTER SYSTEM SET log_statement = 'all'`, `SELECT pg_reload_conf()`,
	} {
		_, err = conn.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	require.NoError(t, conn.Close(context.Background()))
	time.Sleep(time.Second)
	return func() (all []string) {
		file, err := os.Open(filepath.Join(filepath.Dir(stack.EnvironmentFile()), "postgres", "postgres.log"))
		require.NoError(t, err)
		defer file.Close()
		lines := bufio.NewScanner(file)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			line := lines.Text()
			switch {
			case strings.HasPrefix(line, "@checkout/"):
				all = append(all, line)
			case strings.HasPrefix(line, "\t") && len(all) > 0:
				all[len(all)-1] += " " + strings.TrimSpace(line)
			}
		}
		for i := range all {
			all[i] = regexp.MustCompile(`\s+`).ReplaceAllString(all[i], " ")
		}
		return all
	}
}
