package invariant

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"example.com/checkout/storage"
	"example.com/checkout/storage/pgtemp"
	"example.com/checkout/workflows/checkout"
)

const oneOfEach = `
	INSERT INTO merchant (id, name, plan, fee_basis_points, payment_attempts, order_id_guard, created_at) VALUES ('mer_1', 'Shop', 'standard', 100, 3, false, now());
	INSERT INTO checkout_session (id, merchant_id, mode, amount, currency, payout_currency, status, metadata, max_attempts, created_at, expires_at)
	VALUES ('cs_1', 'mer_1', 'test', 1000, 'USD', 'USDC', 'pending', '{"key": "key-1"}', 3, now() - interval '2 h', now() - interval '1 h')`

// TestReadPostgres_OfTheSchema checks that every statement fits the schema, and that a row which
// changes afterwards is marked.
func TestReadPostgres_OfTheSchema(t *testing.T) {
	t.Parallel()
	url := pgtemp.ForTest(t, storage.Migrate)
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(t.Context()) }) // everything was read
	_, err = conn.Exec(t.Context(), oneOfEach)
	require.NoError(t, err)

	f := &Facts{}
	require.NoError(t, readPostgres(t.Context(), conn, f))
	require.Len(t, f.Sessions, 1)
	require.Equal(t, checkout.StatusPending, f.Sessions[0].Status)
	require.Equal(t, "key-1", f.Sessions[0].Key)
	require.Subset(t, f.Constraints, guards)
	var words string
	require.NoError(t, conn.QueryRow(t.Context(), Unsettled).Scan(&words))
	require.Equal(t, "1 pending sessions whose time is over", words)

	require.NoError(t, readMoved(t.Context(), conn, f))
	require.False(t, f.Sessions[0].Moved)
	_, err = conn.Exec(t.Context(), `
		UPDATE checkout_session SET status = 'expired', ended_at = now() WHERE id = 'cs_1';
		INSERT INTO checkout_session (id, merchant_id, mode, amount, currency, payout_currency, status, metadata, max_attempts, created_at, expires_at)
		VALUES ('cs_new', 'mer_1', 'test', 1000, 'USD', 'USDC', 'pending', '{}', 3, now(), now() + interval '1 h')`)
	require.NoError(t, err)
	f.Runs = []Run{{WorkflowID: "cs_1"}, {WorkflowID: "cs_new"}, {WorkflowID: "cs_without_row"}}
	require.NoError(t, readMoved(t.Context(), conn, f))
	require.True(t, f.Sessions[0].Moved)
	require.Equal(t, []Run{{WorkflowID: "cs_1"}, {WorkflowID: "cs_without_row"}}, f.Runs, "without that of a row that came since")

	found, err := SearchDatabase(t.Context(), url, "", []Canary{{Value: "key-1"}, {Value: "nowhere"}})
	require.NoError(t, err)
	require.Equal(t, map[int]int{0: 1}, found["checkout_session"])
	require.Empty(t, found["merchant"])
}

func TestSearchLogs_FindsCanaries(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "api.log"), []byte("card 4242 of request-1"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "data.bin"), []byte("4242"), 0o600))
	leaks, searched, err := searchLogs(dir, []Canary{
		{Name: "card", Value: "4242"}, {Name: "request", Value: "request-1", Logged: true}, {Name: "key", Value: "sk_test"},
	})
	require.NoError(t, err)
	require.Equal(t, []Leak{{"card", "api.log", 1}}, leaks)
	require.Equal(t, 3, searched)
}
