package e2e

import (
	"context"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// TestCanaries_AreOnlyWhereTheyBelong sends values that can be told from all
// others through the main job, a decline and a refused request, and looks for
// them in every log, span and metric and in every table of the service and of
// Temporal, whose histories are tables too.
func TestCanaries_AreOnlyWhereTheyBelong(t *testing.T) {
	t.Parallel()
	m := newMerchant(t, shared)
	email, note := "canary.e-mail.5471@example.com", "canary-metadata-8832"
	cvc := "9173"
	said := "canary-response-6613"
	talks := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, said, http.StatusTeapot) }))
	t.Cleanup(talks.Close)
	rotated := m.must(http.StatusOK, http.MethodPost, "/v1/webhooks/"+m.registration()+"/rotate_secret", `{"overlap_hours": 1}`).field("secret").(string)
	body := fmt.Sprintf(`{"amount": 77.31, "currency": "EUR", "payout_currency": "USDC", "customer_email": %q, "metadata": {"note": %q}}`, email, note)
	id := m.create(body)
	for _, c := range [][2]string{{"4000 0000 0000 9995", cvc[:3]}, {"3782 822463 10005", cvc}} {
		res, err := http.PostForm(shared.PageURL()+"/"+id, url.Values{
			"card_number": {c[0]}, "exp": {"11/39"}, "cvc": {c[1]}, "email": {email},
		})
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
	}
	refused := m.create(`{"amount": 1, "currency": "EUR", "payout_currency": "USDC", "webhook_url": "` + talks.URL + `"}`)
	m.mustPay(refused, cardDeclined)
	m.awaitDelivery(deliveryOf(t, shared, refused, "checkout.failed"), "status", "failed", 40*time.Second)
	m.must(http.StatusBadRequest, http.MethodPost, "/v1/checkout", strings.Replace(body, `"EUR"`, `"`+note+`"`, 1))
	m.arrivals(3, 10*time.Second)
	m.awaitStatus(id, checkout.StatusCompleted, 5*time.Second)
	// A later request's span follows ours through the same exporter.
	marker := m.create(terms)
	awaitSpan(t, "api", marker, "")

	canaries := []struct {
		name, value string
		tables      []string // where it belongs
	}{
		{"card number", "378282246310005", nil},
		{"card number as typed", "3782 822463 10005", nil},
		{"declined card number", "4000000000009995", nil},
		{"API key", strings.TrimPrefix(m.key, "sk_test_"), nil},
		{"webhook secret", strings.TrimPrefix(m.secret, "whsec_"), nil},
		{"digest of the secret", hex.EncodeToString(webhook.SecretDigest(m.secret)), nil},
		{"digest of the secret, raw", string(webhook.SecretDigest(m.secret)), nil},
		{"rotated secret", strings.TrimPrefix(rotated, "whsec_"), nil},
		{"digest of the rotated secret, raw", string(webhook.SecretDigest(rotated)), nil},
		{"what a receiver said", said, []string{"webhook_attempt"}},
		{"master key", strings.SplitN(shared.Demo.MasterKeys, ":", 2)[1], nil},
		{"database password", databasePassword(t), nil},
		{"e-mail", email, []string{"checkout_session", "transaction", "event"}},
		{"metadata", note, []string{"checkout_session", "event"}},
	}
	logs := stackLogs(t)
	for _, c := range canaries {
		for path, text := range logs {
			require.NotContains(t, text, c.value, "%s in %s", c.name, path)
		}
	}
	bare := regexp.MustCompile(`[^0-9A-Za-z.:_-]` + cvc + `[^0-9A-Za-z.:_-]`)
	for path, text := range logs {
		require.Empty(t, bare.FindString(text), "CVC in %s", path)
	}
	for _, database := range []string{"checkout", "temporal", "temporal_visibility"} {
		conn, err := pgx.Connect(t.Context(), shared.Postgres.URL(database))
		require.NoError(t, err)
		for _, table := range tables(t, conn) {
			for _, c := range canaries {
				n := occurrences(t, conn, table, c.value)
				if database == "checkout" && slices.Contains(c.tables, table) {
					require.NotZero(t, n, "%s belongs into %s: the search works", c.name, table)
				} else {
					require.Zero(t, n, "%s in %s.%s", c.name, database, table)
				}
			}
		}
		require.NoError(t, conn.Close(context.Background()))
	}
}

// stackLogs returns every log of the shared stack but the demo's own file.
func stackLogs(t *testing.T) map[string]string {
	t.Helper()
	logs := map[string]string{}
	root := filepath.Dir(shared.Log("api"))
	require.NoError(t, filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".log" {
			return nil // PostgreSQL's own files come and go
		}
		text, err := os.ReadFile(path)
		logs[path] = string(text)
		return err
	}))
	require.Greater(t, len(logs), 3)
	return logs
}

func databasePassword(t *testing.T) string {
	t.Helper()
	u, err := url.Parse(shared.DatabaseURL())
	require.NoError(t, err)
	password, _ := u.User.Password()
	require.NotEmpty(t, password)
	return password
}

func tables(t *testing.T, conn *pgx.Conn) []string {
	t.Helper()
	rows, err := conn.Query(t.Context(), `SELECT table_name FROM information_schema.tables WHERE table_schema = 'public' AND table_type = 'BASE TABLE'`)
	require.NoError(t, err)
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.NotEmpty(t, names)
	return names
}

// occurrences counts the rows of a table that hold value as text or as bytes.
func occurrences(t *testing.T, conn *pgx.Conn, table, value string) int {
	t.Helper()
	var n int
	name := pgx.Identifier{table}.Sanitize()
	err := conn.QueryRow(t.Context(), `SELECT count(*) FROM `+name+` r WHERE strpos(r::text, $1) > 0`, hex.EncodeToString([]byte(value))).Scan(&n)
	require.NoError(t, err)
	if isText(value) {
		var m int
		err = conn.QueryRow(t.Context(), `SELECT count(*) FROM `+name+` r WHERE strpos(r::text, $1) > 0`, value).Scan(&m)
		require.NoError(t, err)
		n += m
	}
	return n
}

func isText(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
}
