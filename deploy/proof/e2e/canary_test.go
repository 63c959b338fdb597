package e2e_test

import (
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"example.com/checkout/deploy/program/app"
	"example.com/checkout/deploy/proof/chaos/invariant"
	"example.com/checkout/deploy/proof/e2e"
	"example.com/checkout/deploy/standin/devstack"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/contract"
	"example.com/checkout/workflows/webhook"
)

// TestCanaries_AreOnlyWhereTheyBelong sends values that can be told from all others through the main job, a decline and
// a refused request, and looks for them in every log, span and metric and in every table of the service and of
// Temporal, whose histories are tables too.
func TestCanaries_AreOnlyWhereTheyBelong(t *testing.T) {
	t.Parallel()
	m := e2e.NewMerchant(t, e2e.Shared)
	email, note := "canary.e-mail.5471@example.com", "canary-metadata-8832"
	cvc := "9173"
	said := "canary-response-6613"
	talks := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, said, http.StatusTeapot) }))
	t.Cleanup(talks.Close)
	rotated := m.Must(http.StatusOK, http.MethodPost, "/v1/webhooks/"+m.Registration()+"/rotate_secret", `{"overlap_hours": 1}`).Field("secret").(string)
	body := fmt.Sprintf(`{"amount": 77.31, "currency": "EUR", "payout_currency": "USDC", "customer_email": %q, "metadata": {"note": %q}}`, email, note)
	id := m.Create(body)
	for _, c := range [][2]string{{"4000 0000 0000 9995", cvc[:3]}, {"3782 822463 10005", cvc}} {
		e2e.PostForm(t, e2e.Shared.PageURL()+"/"+id, url.Values{
			"card_number": {c[0]}, "exp": {"11/39"}, "cvc": {c[1]}, "email": {email},
		})
		e2e.Await(t, "the card is decided", 10*time.Second, func() bool {
			got := m.Session(id)
			return got.Field("status") == "completed" || got.Field("transaction.failure.code") != nil
		})
	}
	refused := m.Create(`{"amount": 1, "currency": "EUR", "payout_currency": "USDC", "webhook_url": "` + talks.URL + `"}`)
	m.MustPay(refused, e2e.CardDeclined)
	picture := "canary-picture-2290"
	for _, server := range []string{talks.URL, "http://127.0.0.1:1", "http://" + picture + ".invalid"} {
		m.Create(fmt.Sprintf(`{"amount": 1, "currency": "EUR", "payout_currency": "USDC", "line_items": [
			{"name": "Beans", "quantity": 1, "unit_amount": 1, "image_url": "%s/beans.png?token=%s"}]}`, server, picture))
	}
	m.AwaitDelivery(e2e.DeliveryOf(t, e2e.Shared, refused, "checkout.failed"), "status", "failed", 40*time.Second)
	e2e.AwaitQuery(t, "no picture can be had", 30*time.Second, e2e.Shared, 3, `SELECT count(*) FROM picture WHERE merchant_id = $1 AND status = 'failed'`, m.ID)
	m.Must(http.StatusBadRequest, http.MethodPost, "/v1/checkout", strings.Replace(body, `"EUR"`, `"`+note+`"`, 1))
	m.Arrivals(3, 10*time.Second)
	m.AwaitStatus(id, checkout.StatusCompleted, 5*time.Second)
	token := "canary-token-1107"
	tellHeaders(t, m, token)
	for _, a := range m.Arrivals(4, 10*time.Second) {
		for _, h := range invariant.HeaderCanaries {
			require.NotContains(t, fmt.Sprint(a.Header, string(a.Body)), h.Value, "%s at the receiver", h.Name)
		}
	}
	// A later request's span follows ours through the same exporter.
	marker := m.Create(e2e.Terms)
	awaitSpan(t, "api", marker, "")

	password, _ := must.Get(url.Parse(e2e.Shared.DatabaseURL()))(t).User.Password()
	require.NotEmpty(t, password)
	canaries := []invariant.Canary{ // with the tables where they belong
		{Name: "card number", Value: "378282246310005"},
		{Name: "card number as typed", Value: "3782 822463 10005"},
		{Name: "declined card number", Value: "4000000000009995"},
		{Name: "API key", Value: strings.TrimPrefix(m.Key, "sk_test_")},
		{Name: "webhook secret", Value: strings.TrimPrefix(m.Secret, "whsec_")},
		{Name: "digest of the secret", Value: hex.EncodeToString(webhook.SecretDigest(m.Secret))},
		{Name: "digest of the secret, raw", Value: string(webhook.SecretDigest(m.Secret))},
		{Name: "rotated secret", Value: strings.TrimPrefix(rotated, "whsec_")},
		{Name: "digest of the rotated secret, raw", Value: string(webhook.SecretDigest(rotated))},
		{Name: "what a receiver said", Value: said, Tables: []string{"webhook_attempt"}},
		{Name: "master key", Value: strings.SplitN(e2e.Shared.Demo.MasterKeys, ":", 2)[1]},
		{Name: "database password", Value: password},
		{Name: "e-mail", Value: email, Tables: []string{"checkout_session", "transaction", "event"}},
		{Name: "metadata", Value: note, Tables: []string{"checkout_session", "event"}},
		{Name: "URL of a picture", Value: picture, Tables: []string{"checkout_session", "picture"}},
		{Name: "token in a path or query", Value: token},
	}
	for _, h := range invariant.HeaderCanaries {
		canaries = append(canaries, h.Canary)
	}
	dir := filepath.Dir(e2e.Shared.Log("api"))
	leaks, searched, err := invariant.FindLeaks(t.Context(), e2e.Shared.Postgres.URL("checkout"), dir, canaries)
	require.NoError(t, err)
	require.Empty(t, leaks)
	require.Greater(t, searched, 50*len(canaries), "logs and tables of three databases")
	found := must.Get(invariant.SearchDatabase(t.Context(), e2e.Shared.Postgres.URL("checkout"), "checkout", canaries))(t)
	for i, c := range canaries {
		for _, table := range c.Tables {
			require.NotZero(t, found[table][i], "%s belongs into %s: the search works", c.Name, table)
		}
	}
	bare := regexp.MustCompile(`[^0-9A-Za-z.:_-]` + cvc + `[^0-9A-Za-z.:_-]`)
	process := regexp.MustCompile(`(?m)^(\S+ \S+ \S+) \[\d+\] `) // of a line of PostgreSQL's
	for path, text := range stackLogs(t, dir) {
		require.Empty(t, bare.FindString(process.ReplaceAllString(text, "$1 ")), "CVC in %s", path)
	}
}

// tellHeaders creates and pays a session with everything in the headers that a caller's software may put there, and
// asks all three servers for paths and queries that hold token, as an invitation does.
func tellHeaders(t *testing.T, m *e2e.Merchant, token string) {
	telling := http.Header{}
	invariant.AddHeaderCanaries(telling)
	ask := func(method, address, contentType, body string) e2e.Answer {
		header := []string{"Authorization", "Bearer " + m.Key, "Content-Type", contentType}
		for name, values := range telling {
			header = append(header, name, values[0])
		}
		return e2e.Ask(t, method, address, body, header...)
	}
	got := ask(http.MethodPost, m.Stack.APIURL()+"/v1/checkout", "application/json", e2e.Terms)
	require.Equal(t, http.StatusCreated, got.Status, string(got.Body))
	id := got.Field("id").(string)
	form := url.Values{"card_number": {e2e.CardDeclined}, "exp": {"12/40"}, "cvc": {"123"}, "email": {"ann@example.com"}}
	got = ask(http.MethodPost, m.Stack.PageURL()+"/"+id, "application/x-www-form-urlencoded", form.Encode())
	require.Less(t, got.Status, 400)
	for _, address := range []string{
		m.Stack.APIURL() + "/v1/checkout/" + token, m.Stack.APIURL() + "/v1/checkout?starting_after=" + token, m.Stack.APIURL() + "/" + token,
		m.Stack.PageURL() + "/" + token, m.Stack.PageURL() + "/" + id + "?lang=" + token, m.Stack.PageURL() + "/no/" + token,
		m.Stack.DashboardURL() + "/invitation/" + token, m.Stack.DashboardURL() + "/signin?next=" + token, m.Stack.DashboardURL() + "/no/" + token,
	} {
		got := ask(http.MethodGet, address, "", "")
		require.Less(t, got.Status, 500, address)
	}
}

func stackLogs(t *testing.T, root string) map[string]string {
	logs := map[string]string{}
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

// TestCustomerErase_LeavesNothingInAnyDatabase looks for the address in every table
// of the service and of Temporal, whose histories are tables too. Then the session itself leaves.
func TestCustomerErase_LeavesNothingInAnyDatabase(t *testing.T) {
	t.Parallel()
	stack := e2e.Beside(t, devstack.Options{})
	m := e2e.NewMerchant(t, stack)
	email := m.ID + "@example.com" // Temporal's tables are Shared's too
	id := m.Create(`{"amount": 20, "currency": "EUR", "payout_currency": "USDC", "customer_email": "` + email + `",
		"metadata": {"order_id": "o-1", "note": "` + email + `"}}`)
	e2e.PostForm(t, stack.PageURL()+"/"+id, url.Values{
		"card_number": {e2e.CardSucceeds}, "exp": {"12/40"}, "cvc": {"123"}, "email": {email},
	})
	m.AwaitStatus(id, checkout.StatusCompleted, 10*time.Second)
	e2e.AwaitQuery(t, "everything is delivered", 30*time.Second, stack, 2, `SELECT count(*) FROM webhook_delivery WHERE status = 'delivered'`)

	found := func() (tables []string) {
		for _, database := range []string{"", "temporal", "temporal_visibility"} {
			in, err := invariant.SearchDatabase(t.Context(), stack.DatabaseURL(), database, []invariant.Canary{{Value: email}})
			require.NoError(t, err)
			for table, rows := range in {
				if rows[0] > 0 {
					tables = append(tables, database+"."+table)
				}
			}
		}
		return tables
	}
	require.ElementsMatch(t, []string{".checkout_session", ".event", ".transaction"}, found())
	erase := []string{"customer", "erase", "--email", email, "--apply"}
	require.NoError(t, app.Main(t.Context(), erase, stack.Environment(), io.Discard, io.Discard))
	require.Empty(t, found())
	require.Nil(t, m.Session(id).Field("customer_email"))
	require.Equal(t, "o-1", m.Session(id).Field("metadata.order_id"))

	run := must.Get(e2e.TemporalClient(t, stack).ExecuteWorkflow(t.Context(),
		client.StartWorkflowOptions{TaskQueue: contract.TaskQueueCheckout}, contract.TypeRetention,
		contract.RetentionInput{Age: time.Millisecond, Session: time.Millisecond}))(t)
	require.NoError(t, run.Get(t.Context(), nil))
	m.Must(http.StatusNotFound, http.MethodGet, "/v1/checkout/"+id, "")
	m.Must(http.StatusNotFound, http.MethodPost, "/v1/checkout/"+id+"/expire", "")
}
