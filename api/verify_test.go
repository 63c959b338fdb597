package api

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// sentBody is the body that a delivery of the event sends.
func (f *front) sentBody(mode checkout.Mode, event string) []byte {
	f.t.Helper()
	e, err := f.store.Webhooks.Event(f.t.Context(), checkout.Owner{MerchantID: f.merchant.ID, Mode: mode}.Ref(event))
	require.NoError(f.t, err)
	return e.Body
}

// verify asks for an explanation.
func (f *front) verify(key string, request map[string]any) answer {
	f.t.Helper()
	text, err := json.Marshal(request)
	require.NoError(f.t, err)
	got := f.answers(200, "POST", "/v1/webhooks/verify", key, string(text))
	require.Len(f.t, got.json, 9)
	return got
}

func TestVerifySignature_ComparesWithTheEventAsItWasSent(t *testing.T) {
	f := newFront(t)
	key := f.merchant.testKey
	endpoint, secret := f.newEndpoint(key)
	second, otherSecret := f.newEndpoint(key)
	event, _ := f.newDelivery(key, endpoint)
	sent := f.sentBody(checkout.ModeTest, event)
	header := webhook.Sign([]byte(secret), time.Now(), sent)

	got := f.verify(key, map[string]any{"header": header, "body": string(sent), "webhook": endpoint, "computed": strings.Split(header, "v1=")[1]})
	require.Equal(t, true, got.json["valid"])
	require.Nil(t, got.json["problem"])
	require.Equal(t, endpoint, got.json["signed_by"])
	require.Equal(t, "current", got.json["secret"])
	require.Equal(t, true, got.json["computed"].(map[string]any)["right"])

	got = f.verify(key, map[string]any{"header": header, "body": string(sent) + "\n", "webhook": endpoint})
	require.Equal(t, "body_trailing_newline", got.json["problem"])
	require.EqualValues(t, len(sent), got.json["first_difference"])
	got = f.verify(key, map[string]any{"header": webhook.Sign([]byte(otherSecret), time.Now(), sent), "body": string(sent), "webhook": endpoint})
	require.Equal(t, "other_registration", got.json["problem"])
	require.Equal(t, second, got.json["signed_by"])
	got = f.verify(key, map[string]any{"header": webhook.Sign([]byte(secret), time.Now().Add(-time.Hour), sent), "body": string(sent)})
	require.Equal(t, "timestamp_too_old", got.json["problem"])
	require.InDelta(t, 3600, got.json["age_seconds"], 5)

	rotated := f.do("POST", "/v1/webhooks/"+endpoint+"/rotate_secret", key, "").json["secret"].(string)
	got = f.verify(key, map[string]any{"header": header, "body": string(sent)})
	require.Equal(t, "previous", got.json["secret"])
	require.Equal(t, true, got.json["valid"])
	require.NotNil(t, got.json["secret_expires_at"])
	f.exec(`UPDATE webhook_endpoint SET previous_expires_at = now() - interval '1 hour' WHERE previous_expires_at IS NOT NULL`)
	got = f.verify(key, map[string]any{"header": header, "body": string(sent)})
	require.Equal(t, "expired_secret", got.json["problem"])

	f.do("DELETE", "/v1/webhooks/"+endpoint, key, "")
	got = f.verify(key, map[string]any{"header": webhook.Sign([]byte(rotated), time.Now(), sent), "body": string(sent)})
	require.Equal(t, "deleted_registration", got.json["problem"])
	require.NotContains(t, f.log.String(), string(sent))
}

func TestVerifySignature_KnowsTheSecretOfASession(t *testing.T) {
	f := newFront(t)
	key := f.merchant.testKey
	created := f.do("POST", "/v1/checkout", key, with("webhook_url", `"https://shop.example/own"`))
	session, secret := created.json["id"].(string), created.json["webhook_secret"].(string)
	f.pay(session, checkout.ChargeResult{Outcome: checkout.OutcomeSucceeded})
	event := f.do("GET", "/v1/events?session="+session, key, "").ids()[0]
	sent := f.sentBody(checkout.ModeTest, event)
	got := f.verify(key, map[string]any{"header": webhook.Sign([]byte(secret), time.Now(), sent), "body": string(sent)})
	require.Equal(t, true, got.json["valid"])
	require.Equal(t, session, got.json["signed_by"])
}

// TestVerifySignature_IsNoOracle checks that no answer holds a secret, its digest or the right
// signature, and that another merchant's event gives no help.
func TestVerifySignature_IsNoOracle(t *testing.T) {
	f := newFront(t)
	attacker := f.newMerchant(true)
	endpoint, secret := f.newEndpoint(f.merchant.testKey)
	event, _ := f.newDelivery(f.merchant.testKey, endpoint)
	sent := string(f.sentBody(checkout.ModeTest, event))
	forged := strings.Replace(sent, `"amount":100.50`, `"amount":999.00`, 1)
	require.NotEqual(t, sent, forged)
	now := time.Now()
	for _, text := range []string{sent, forged} {
		right := strings.Split(webhook.Sign([]byte(secret), now, []byte(text)), ",v1=")
		for _, key := range []string{f.merchant.testKey, f.merchant.liveKey, attacker.testKey} {
			for _, request := range []map[string]any{
				{"header": right[0] + ",v1=" + strings.Repeat("0", 64), "body": text, "computed": strings.Repeat("0", 64)},
				{"header": right[0], "body": text},
				{"header": "", "body": text},
			} {
				got := f.verify(key, request)
				require.Equal(t, false, got.json["valid"])
				require.NotContains(t, got.body, right[1])
				require.NotContains(t, got.body, secret[6:])
			}
		}
		if text == sent {
			got := f.verify(attacker.testKey, map[string]any{"header": strings.Join(right, ",v1="), "body": text})
			require.Equal(t, "wrong_secret_or_changed_body", got.json["problem"], "nobody else's event is looked at")
			got = f.verify(f.merchant.liveKey, map[string]any{"header": strings.Join(right, ",v1="), "body": text})
			require.Equal(t, "wrong_secret_or_changed_body", got.json["problem"], "nor the other mode's")
		}
	}
}
