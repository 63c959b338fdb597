package api

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// sentBody is the body that a delivery of the event sends.
func (f *front) sentBody(mode checkout.Mode, event string) []byte {
	e, err := f.store.Webhooks.Event(f.t.Context(), checkout.Owner{MerchantID: f.merchant.ID, Mode: mode}.Ref(event))
	require.NoError(f.t, err)
	return e.Body
}

func (f *front) verify(key string, request map[string]any) answer {
	text, err := json.Marshal(request)
	require.NoError(f.t, err)
	got := f.answers(200, "POST", "/v1/webhooks/verify", key, string(text))
	require.Len(f.t, got.json, 9)
	return got
}

func TestVerifySignature_KnowsTheSecretOfASession(t *testing.T) {
	f := newFront(t)
	created := f.do("POST", "/v1/checkout", f.key, with("webhook_url", `"https://shop.example/own"`))
	session, secret := created.json["id"].(string), created.json["webhook_secret"].(string)
	f.pay(session, checkout.ChargeResult{Outcome: checkout.OutcomeSucceeded})
	event := f.do("GET", "/v1/events?session="+session, f.key, "").ids()[0]
	sent := f.sentBody(checkout.ModeTest, event)
	got := f.verify(f.key, map[string]any{"header": webhook.Sign([]byte(secret), time.Now(), sent), "body": string(sent)})
	require.Equal(t, true, got.json["valid"])
	require.Equal(t, session, got.json["signed_by"])
}

// TestVerifySignature_IsNoOracle checks that no answer holds a secret, its digest or the right
// signature, and that another merchant's event gives no help.
func TestVerifySignature_IsNoOracle(t *testing.T) {
	f := newFront(t)
	attacker := f.newMerchant(true)
	endpoint, secret := f.newEndpoint(f.key)
	event, _ := f.newDelivery(f.key, endpoint)
	sent := string(f.sentBody(checkout.ModeTest, event))
	forged := strings.Replace(sent, `"amount":100.50`, `"amount":999.00`, 1)
	require.NotEqual(t, sent, forged)
	now := time.Now()
	for _, text := range []string{sent, forged} {
		right := strings.Split(webhook.Sign([]byte(secret), now, []byte(text)), ",v1=")
		for _, key := range []string{f.key, f.merchant.liveKey, attacker.testKey} {
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

// What the cases of the tables below have in common.
var (
	verdictNow = time.Unix(1_800_000_000, 0)
	sentText   = `{"id":"evt_06gztdfwyn8cwbky0dztw56vx8","type":"payout.sent","data":{"amount":10.50,"whole":10.00,"n":3,"url":"https://a/b?c&d","name":"Zürich 😀"}}`

	current  = webhook.NewSecret()
	previous = webhook.NewSecret()
	expired  = webhook.NewSecret()
	other    = webhook.NewSecret()
	deletedS = webhook.NewSecret()
	ofCS     = webhook.NewSecret()

	soon   = verdictNow.Add(time.Hour)
	before = verdictNow.Add(-time.Minute)
)

func verdictKeys() []storage.WebhookKeys {
	d := webhook.SecretDigest
	return []storage.WebhookKeys{
		{EndpointID: "wh_other", Current: d(other), Previous: d(expired), Until: &before},
		{EndpointID: "wh_main", Current: d(current), Previous: d(previous), Until: &soon},
		{EndpointID: "wh_hidden", SessionID: "cs_1", Current: d(ofCS)},
		{EndpointID: "wh_gone", Deleted: true, Current: d(deletedS)},
	}
}

func signedBy(secret string, at time.Time, text string) string {
	return webhook.Sign([]byte(secret), at, []byte(text))
}

func TestExplain(t *testing.T) {
	t.Parallel()
	good := signedBy(current, verdictNow, sentText)
	ts, v1, _ := strings.Cut(good, ",")
	spaced := strings.Replace(sentText, `,"type"`, `, "type"`, 1)
	for name, tc := range map[string]struct {
		header, body string
		stored       string // the text that was sent unless set; "-" is none
		endpoint     string
		problem      string // "" is valid
		signer       string
		secret       secretState
		says         string
		at           int // first difference; -1 for null
	}{
		"valid":                     {header: good, body: sentText, signer: "wh_main", secret: "current", says: "wh_main (current)", at: -1},
		"valid, event not known":    {header: good, body: sentText, stored: "-", signer: "wh_main", secret: "current", at: -1},
		"valid, previous secret":    {header: signedBy(previous, verdictNow, sentText), body: sentText, signer: "wh_main", secret: "previous", at: -1},
		"valid, session's secret":   {header: signedBy(ofCS, verdictNow, sentText), body: sentText, signer: "cs_1", secret: "current", says: "session cs_1", at: -1},
		"empty header":              {header: "", body: sentText, problem: "malformed_header", says: "empty", at: -1},
		"header with its name":      {header: "x-service-signature: " + good, body: sentText, problem: "malformed_header", says: "without that name", at: -1},
		"header with a space":       {header: ts + ", " + v1, body: sentText, problem: "malformed_header", says: "space", at: -1},
		"header without t":          {header: v1, body: sentText, problem: "malformed_header", says: "no timestamp", at: -1},
		"header with two t":         {header: ts + "," + good, body: sentText, problem: "malformed_header", says: "two timestamps", at: -1},
		"header without v1":         {header: ts, body: sentText, problem: "malformed_header", says: "no signature v1", at: -1},
		"header with text as t":     {header: "t=now," + v1, body: sentText, problem: "malformed_header", says: "must be Unix seconds", at: -1},
		"header with a long t":      {header: ts + ".0," + v1, body: sentText, problem: "malformed_header", says: "must be Unix seconds", at: -1},
		"header, upper-case hex":    {header: ts + ",v1=" + strings.ToUpper(v1[3:]), body: sentText, problem: "malformed_header", says: "lower case", at: -1},
		"header, short hex":         {header: good[:len(good)-1], body: sentText, problem: "malformed_header", says: "it has 63", at: -1},
		"header, not hex":           {header: good[:len(good)-1] + "g", body: sentText, problem: "malformed_header", says: "hexadecimal", at: -1},
		"header, base64":            {header: ts + ",v1=" + base64.StdEncoding.EncodeToString(make([]byte, 32)), body: sentText, problem: "malformed_header", says: "it has 44", at: -1},
		"header, no pairs":          {header: "garbage", body: sentText, problem: "malformed_header", says: "name=value", at: -1},
		"in the future":             {header: signedBy(current, verdictNow.Add(301*time.Second), sentText), body: sentText, problem: "timestamp_in_future", signer: "wh_main", secret: "current", says: "301 s in the future", at: -1},
		"old":                       {header: signedBy(current, verdictNow.Add(-301*time.Second), sentText), body: sentText, problem: "timestamp_too_old", signer: "wh_main", secret: "current", says: "301 s old", at: -1},
		"deleted registration":      {header: signedBy(deletedS, verdictNow, sentText), body: sentText, problem: "deleted_registration", signer: "wh_gone", secret: "current", says: "which was deleted", at: -1},
		"other registration":        {header: signedBy(other, verdictNow, sentText), body: sentText, endpoint: "wh_main", problem: "other_registration", signer: "wh_other", secret: "current", says: "the secret of wh_other, not with the secret of wh_main", at: -1},
		"a session's, not wh_main":  {header: signedBy(ofCS, verdictNow, sentText), body: sentText, endpoint: "wh_main", problem: "other_registration", signer: "cs_1", secret: "current", says: "webhook_secret of session cs_1", at: -1},
		"rotated away":              {header: signedBy(expired, verdictNow, sentText), body: sentText, problem: "expired_secret", signer: "wh_other", secret: "expired", at: -1},
		"CRLF at the end":           {header: good, body: sentText + "\r\n", problem: "body_crlf", signer: "wh_main", secret: "current", at: len(sentText)},
		"CRLF inside":               {header: signedBy(current, verdictNow, "{\n"+sentText[1:]), body: "{\r\n" + sentText[1:], stored: "{\n" + sentText[1:], problem: "body_crlf", signer: "wh_main", secret: "current", at: 1},
		"encoded again":             {header: good, body: spaced, problem: "body_reencoded", signer: "wh_main", secret: "current", says: "from byte 39 on", at: 39},
		"encoded again, numbers":    {header: good, body: strings.Replace(sentText, "10.50", "10.5", 1), problem: "body_reencoded", signer: "wh_main", secret: "current", at: strings.Index(sentText, "10.50") + 4},
		"changed":                   {header: good, body: strings.Replace(sentText, "10.50", "99.50", 1), problem: "body_changed", signer: "wh_main", secret: "current", says: "content differs", at: strings.Index(sentText, "10.50")},
		"appended":                  {header: good, body: sentText + "}", problem: "body_not_json", signer: "wh_main", secret: "current", at: len(sentText)},
		"changed, other one signed": {header: signedBy(other, verdictNow, sentText), body: sentText + "\n", endpoint: "wh_main", problem: "body_trailing_newline", signer: "wh_other", secret: "current", at: len(sentText)},
		"wrong secret, right body":  {header: signedBy(webhook.NewSecret(), verdictNow, sentText), body: sentText, problem: "wrong_secret", says: "The body is what we sent", at: -1},
		"wrong secret and body":     {header: signedBy(webhook.NewSecret(), verdictNow, sentText), body: sentText + "\n", problem: "wrong_secret", says: "Also", at: len(sentText)},
	} {
		stored := tc.stored
		switch stored {
		case "":
			stored = sentText
		case "-":
			stored = ""
		}
		v := verification{Header: tc.header, Body: tc.body, EndpointID: tc.endpoint, Stored: stored, Keys: verdictKeys(), Now: verdictNow}
		got := v.explain()
		require.Equal(t, tc.problem == "", got.Valid, "%s: %+v", name, got.Message)
		require.Equal(t, tc.problem, orNone(got.Problem), name)
		require.Equal(t, tc.signer, orNone(got.SignedBy), name)
		require.Equal(t, tc.secret, orNone(got.Secret), name)
		require.Contains(t, got.Message, tc.says, name)
		if tc.at < 0 {
			require.Nil(t, got.FirstDifference, name)
		} else {
			require.Equal(t, tc.at, *got.FirstDifference, name)
		}
		require.Equal(t, tc.secret == secretPrevious || tc.secret == secretExpired, got.SecretExpiresAt != nil, name)
		require.Equal(t, tc.problem == "malformed_header", got.AgeSeconds == nil, name)
		require.Nil(t, got.Computed, name)
		tellsNothing(t, got)
	}
}

func orNone[T ~string](p *T) T {
	if p == nil {
		return ""
	}
	return *p
}

func twice(text string) string {
	out, _ := json.Marshal(text) // a string can be encoded
	return string(out)
}

// tellsNothing checks that an answer holds no secret, digest or signature.
func tellsNothing(t *testing.T, got verdict) {
	text, err := json.Marshal(got)
	require.NoError(t, err)
	for _, secret := range []string{current, previous, expired, other, deletedS, ofCS} {
		require.NotContains(t, string(text), secret[6:])
		require.NotContains(t, string(text), hex.EncodeToString(webhook.SecretDigest(secret)))
	}
	require.NotRegexp(t, `[0-9a-f]{32}`, string(text))
}

func TestExplainComputed(t *testing.T) {
	t.Parallel()
	t0 := fmt.Sprint(verdictNow.Unix())
	mac := func(secret, text string) []byte {
		m := hmac.New(sha256.New, []byte(secret))
		m.Write([]byte(text))
		return m.Sum(nil)
	}
	of := func(secret, text string) string { return hex.EncodeToString(mac(secret, text)) }
	right := of(current, t0+"."+sentText)
	javaScript := `{"id":"evt_06gztdfwyn8cwbky0dztw56vx8","type":"payout.sent","data":{"amount":10.5,"whole":10,"n":3,"url":"https://a/b?c&d","name":"Zürich 😀"}}`
	python := `{"id": "evt_06gztdfwyn8cwbky0dztw56vx8", "type": "payout.sent", "data": {"amount": 10.5, "whole": 10.0, "n": 3, "url": "https://a/b?c&d", "name": "Z\u00fcrich \ud83d\ude00"}}`
	php := `{"id":"evt_06gztdfwyn8cwbky0dztw56vx8","type":"payout.sent","data":{"amount":10.5,"whole":10.0,"n":3,"url":"https:\/\/a\/b?c&d","name":"Z\u00fcrich \ud83d\ude00"}}`
	goMap := `{"data":{"amount":10.5,"n":3,"name":"Zürich 😀","url":"https://a/b?c\u0026d","whole":10},"id":"evt_06gztdfwyn8cwbky0dztw56vx8","type":"payout.sent"}`
	for name, tc := range map[string]struct {
		computed string
		body     string // the text that was sent unless set
		problem  string
		says     string
	}{
		"right":                         {computed: right},
		"right for another body":        {computed: of(current, t0+"."+javaScript), body: javaScript},
		"right for the body we sent":    {computed: right, body: javaScript},
		"right, previous secret":        {computed: of(previous, t0+"."+sentText)},
		"base64 for URLs":               {computed: base64.RawURLEncoding.EncodeToString(mac(current, t0+"."+sentText)), problem: "base64"},
		"with sha256= in front":         {computed: "sha256=" + right, problem: "prefixed", says: "sha256="},
		"without timestamp, base64":     {computed: base64.StdEncoding.EncodeToString(mac(current, sentText)), problem: "without_timestamp"},
		"encoded again by JavaScript":   {computed: of(current, t0+"."+javaScript), problem: "body_reencoded", says: "JSON.stringify"},
		"encoded again by Python":       {computed: of(current, t0+"."+python), problem: "body_reencoded", says: "json.dumps"},
		"encoded again by PHP":          {computed: of(current, t0+"."+php), problem: "body_reencoded", says: "json_encode"},
		"encoded again with sorted key": {computed: of(current, t0+"."+goMap), problem: "body_reencoded", says: "sorts keys"},
		"empty secret":                  {computed: of("", t0+"."+sentText), problem: "without_secret", says: "empty"},
		"other registration":            {computed: of(other, t0+"."+sentText), problem: "other_secret", says: "wh_other"},
		"rotated away":                  {computed: of(expired, t0+"."+sentText), problem: "other_secret", says: "wh_other"},
		"bytes as text":                 {computed: "<Buffer 01 02>", problem: "not_a_signature"},
		"prefix of the secret cut off":  {computed: of(current[6:], t0+"."+sentText), problem: "unknown", says: "including whsec_"},
		"another timestamp":             {computed: of(current, "1."+sentText), problem: "unknown"},
		"upper case, but wrong":         {computed: strings.ToUpper(of(current[6:], t0+"."+sentText)), problem: "unknown"},
	} {
		sent := tc.body
		if sent == "" {
			sent = sentText
		}
		v := verification{
			Header: signedBy(current, verdictNow, sentText), Body: sent, EndpointID: "wh_main", Computed: tc.computed, Stored: sentText, Keys: verdictKeys(), Now: verdictNow,
		}
		got := v.explain()
		require.NotNil(t, got.Computed, name)
		require.Equal(t, tc.problem == "", got.Computed.Right, name)
		require.Equal(t, tc.problem, orNone(got.Computed.Problem), name)
		require.Contains(t, got.Computed.Message, tc.says, name)
		if tc.problem != "" && tc.problem != "not_a_signature" {
			tellsNothing(t, got)
		}
		v.EndpointID, v.Header = "", "t=1"
		require.Nil(t, v.explain().Computed, "the header cannot be read")
	}
	v := verification{Header: signedBy(current, verdictNow, sentText), Body: sentText, Computed: of(expired, t0+"."+sentText), Stored: sentText, Keys: verdictKeys(), Now: verdictNow}
	require.Equal(t, "expired_secret", *v.explain().Computed.Problem)
	v.Computed = of(other, t0+"."+sentText)
	require.True(t, v.explain().Computed.Right, "any registration will do when none was named")
	v.Computed, v.Body, v.Stored = of(current, t0+".{"), "{", ""
	require.True(t, v.explain().Computed.Right, "a sentText that is not JSON")
}

func TestEventIDIn(t *testing.T) {
	t.Parallel()
	id, inside := "evt_06gztdfwyn8cwbky0dztw56vx8", "evt_06gztdfwyw7eg75rkww127bpbc"
	for text, want := range map[string]string{
		sentText:                     id,
		sentText[:60]:                id,
		"\ufeff" + sentText + "\r\n": id,
		twice(sentText):              id,
		`{"data":{"id":"` + inside + `"},"id":"` + id + `"}`: id,
		`{"id":"evt_1"}`:  "",
		`{}`:              "",
		``:                "",
		`[object Object]`: "",
	} {
		require.Equal(t, want, eventIDIn(text), text)
	}
}
