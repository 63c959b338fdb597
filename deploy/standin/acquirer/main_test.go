package acquirer_test

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/standin/acquirer"
	"example.com/checkout/storage/pgtemp"
)

const secretKey = "sk_test_double"

// start runs a double in this process, over a database of its own when o names none.
func start(t *testing.T, o acquirer.Options) *acquirer.Acquirer {
	o.SecretKey = secretKey
	if o.DatabaseURL == "" {
		o.DatabaseURL = pgtemp.ForTest(t, nil)
	}
	a, err := acquirer.Start(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(a.Stop)
	return a
}

// A call is one request of the API.
type call struct {
	method, path, key, secret string
	form                      url.Values
}

// send sends the call.
func send(t *testing.T, baseURL string, c call) (*http.Response, error) {
	request, err := http.NewRequestWithContext(t.Context(), c.method, baseURL+c.path, strings.NewReader(c.form.Encode()))
	require.NoError(t, err)
	request.Header.Set("Authorization", "Bearer "+cmp.Or(c.secret, secretKey))
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("Idempotency-Key", c.key)
	return http.DefaultClient.Do(request)
}

// do sends the call and returns the status, the body and whether it is a replay.
func do(t *testing.T, apiURL string, c call) (status int, body map[string]any, replayed bool) {
	response, err := send(t, apiURL, c)
	require.NoError(t, err)
	defer response.Body.Close()
	require.NoError(t, json.NewDecoder(response.Body).Decode(&body))
	return response.StatusCode, body, response.Header.Get("Idempotent-Replayed") == "true"
}

// mustDo is do for a call that succeeds.
func mustDo(t *testing.T, apiURL string, c call) map[string]any {
	status, body, _ := do(t, apiURL, c)
	require.Equal(t, http.StatusOK, status, "%s %s: %v", c.method, c.path, body)
	return body
}

func newIntent(t *testing.T, apiURL string) string {
	return mustDo(t, apiURL, call{method: "POST", path: "/v1/payment_intents", form: intentForm()})["id"].(string)
}

func intentForm() url.Values {
	return url.Values{
		"amount": {"1050"}, "currency": {"eur"}, "confirmation_method": {"manual"}, "capture_method": {"automatic"},
		"payment_method_types[]": {"card"}, "metadata[transaction_id]": {"txn_1"},
	}
}

func newToken(t *testing.T, apiURL, card string) string {
	return mustDo(t, apiURL, call{
		method: "POST", path: "/v1/test_helpers/confirmation_tokens", form: url.Values{"payment_method": {"pm_card_" + card}},
	})["id"].(string)
}

func confirmCall(intent, token string) call {
	return call{method: "POST", path: "/v1/payment_intents/" + intent + "/confirm", form: url.Values{
		"confirmation_token": {token}, "return_url": {"https://pay.example/return"}, "use_stripe_sdk": {"false"},
	}}
}

// count counts rows of a double's table, of which from may say which ones.
func count(t *testing.T, databaseURL, from string) (rows int) {
	conn, err := pgx.Connect(t.Context(), databaseURL)
	require.NoError(t, err)
	defer conn.Close(context.WithoutCancel(t.Context()))
	require.NoError(t, conn.QueryRow(t.Context(), `SELECT count(*) FROM acquirer.`+from).Scan(&rows))
	return rows
}

// eventually waits until check returns true.
func eventually(t *testing.T, check func() bool) {
	require.Eventually(t, check, time.Minute, 10*time.Millisecond)
}
