package api

import (
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/workflows/checkout"
)

var someKey = "sk_test_" + strings.Repeat("0123456789abcdef", 4)

// badAuthorization are sets of Authorization headers without a readable key, beside those of the
// corpus of input (refused/authorization.yaml).
var badAuthorization = map[string][]string{
	"missing":            nil,
	"twice":              {"Bearer " + someKey, "Bearer " + someKey},
	"two in one":         {"Bearer " + someKey + ", Bearer " + someKey},
	"scheme and space":   {"Bearer "},
	"no space":           {"Bearer" + someKey},
	"space before":       {" Bearer " + someKey},
	"space after":        {"Bearer " + someKey + " "},
	"short":              {"Bearer sk_test_1234"},
	"no prefix":          {"Bearer " + someKey[8:]},
	"upper-case prefix":  {"Bearer SK_TEST_" + someKey[8:]},
	"upper-case body":    {"Bearer sk_test_" + strings.ToUpper(someKey[8:])},
	"full-width":         {"Bearer ｓk_test_" + someKey[8:]},
	"zero-width joiner":  {"Bearer " + someKey[:20] + "\u200d" + someKey[23:]},
	"NUL":                {"Bearer " + someKey[:len(someKey)-1] + "\x00"},
	"newline":            {"Bearer " + someKey[:len(someKey)-1] + "\n"},
	"kelvin sign scheme": {"Bea\u212aer " + someKey},
	"percent-encoded":    {"Bearer sk%5Ftest%5F" + someKey[8:]},
	"unknown lower-case": {"bearer " + someKey},
	"query-like":         {"Bearer api_key=" + someKey},
}

func TestAuthentication_OneBodyForEveryKeyThatIsNotValid(t *testing.T) {
	f := newFront(t)
	revoked := f.newMerchant(true)
	require.NoError(t, f.store.Merchants.RevokeAPIKey(t.Context(), checkout.Owner{MerchantID: revoked.ID, Mode: checkout.ModeTest}.Ref(revoked.testKeyID)))
	first := f.do("GET", "/v1/checkout/"+checkout.NewID("cs"), revoked.testKey, "")
	require.Equal(t, "401 invalid_api_key", first.refused())
	require.Equal(t, "Bearer", first.header.Get("WWW-Authenticate"))
	for name, headers := range badAuthorization {
		for _, route := range [][2]string{{"POST", "/v1/checkout"}, {"GET", "/v1/checkout/x"}, {"POST", "/v1/checkout/x/expire"}, {"POST", "/v1/webhooks"}} {
			r := newRequest(t, route[0], route[1], "{not json")
			r.Header["Authorization"] = headers
			got := f.send(r)
			require.Equal(t, 401, got.status, name)
			require.Equal(t, "Bearer", got.header.Get("WWW-Authenticate"), name)
			require.Equal(t, first.withoutID(), got.withoutID(), name)
		}
	}
	require.NotContains(t, f.log.String(), someKey)
	require.NotContains(t, f.log.String(), f.key)
}

func TestAuthentication_ARevokedKeyFailsOnTheNextRequest(t *testing.T) {
	f := newFront(t)
	id := f.newSession(f.key)
	require.Equal(t, 200, f.do("GET", "/v1/checkout/"+id, f.key, "").status)
	require.NoError(t, f.store.Merchants.RevokeAPIKey(t.Context(), f.ref(f.merchant.testKeyID)))
	for range 50 {
		require.Equal(t, 401, f.do("GET", "/v1/checkout/"+id, f.key, "").status)
	}
	require.Equal(t, 403, f.do("GET", "/v1/checkout/"+id, f.merchant.liveKey, "").status, "only that key")
}

func TestAuthentication_ComesBeforeTheBodyIsRead(t *testing.T) {
	f := newFront(t)
	body := strings.NewReader(strings.Repeat(" ", 1<<20))
	r := newRequest(t, "POST", "/v1/checkout", "")
	r.Body = io.NopCloser(body)
	r.ContentLength = 1 << 20
	require.Equal(t, 401, f.send(r).status)
	require.Equal(t, 1<<20, body.Len())
}

func TestAuthentication_ALockedTableIsUnavailableNotAWrongKey(t *testing.T) {
	f := newFront(t)
	conn := f.Connect(t)
	_, err := conn.Exec(t.Context(), `BEGIN; LOCK TABLE api_key`)
	require.NoError(t, err)
	got := f.do("GET", "/v1/checkout/"+checkout.NewID("cs"), f.key, "")
	require.Equal(t, "503 unavailable", got.refused())
	require.Equal(t, "1", got.header.Get("Retry-After"))
	require.NotContains(t, got.body, "lock")
	require.Contains(t, f.log.String(), "lock timeout", "the chain is in the log")
}

// TestMerchant_SaysWhoseKeyItIs: every key may ask, and no answer has a whole address.
func TestMerchant_SaysWhoseKeyItIs(t *testing.T) {
	f := newFront(t)
	const address = "0x52908400098527886E0F7030069857D2E4169EE7"
	f.exec(`DELETE FROM payout_address WHERE merchant_id = $1`, f.merchant.ID)
	f.exec(`INSERT INTO payout_address (merchant_id, mode, currency, network, address)
		VALUES ($1, 'test', 'USDC', 'ethereum', $2), ($1, 'live', 'ETH', 'ethereum', $2)`, f.merchant.ID, address)
	key, id := f.newKey(f.merchant, checkout.ModeTest, "events:read")
	got := f.answers(200, "GET", "/v1/merchant", key, "")
	require.Equal(t, f.merchant.ID, got.json["id"])
	require.Equal(t, false, got.json["livemode"])
	require.Equal(t, []any{map[string]any{"currency": "USDC", "network": "ethereum", "address": "0x5290…9EE7"}}, got.json["payout_addresses"])
	require.Equal(t, id, at(got, "key", "id"))
	require.Equal(t, []any{"events:read"}, got.json["key"].(map[string]any)["scopes"])
	require.NotContains(t, got.body, address)
	require.Equal(t, true, f.do("GET", "/v1/merchant", f.merchant.liveKey, "").json["livemode"])
}
