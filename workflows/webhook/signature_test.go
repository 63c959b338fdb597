package webhook_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	stripe "github.com/stripe/stripe-go/v85/webhook"

	"example.com/checkout/workflows/webhook"
)

func TestSign_IsAcceptedByAVerifierThatSomebodyElseWrote(t *testing.T) {
	t.Parallel()
	secret, body, now := webhook.NewSecret(), []byte(`{"id":"evt_1"}`), time.Now()
	for name, key := range map[string][]byte{"the secret": []byte(secret), "its digest": webhook.SecretDigest(secret)} {
		header := webhook.Sign(key, now, body)
		require.NoError(t, stripe.ValidatePayload(body, header, secret), name)
		require.NoError(t, webhook.Verify(secret, header, body, now), name)
		require.Error(t, stripe.ValidatePayload(body, header, webhook.NewSecret()), "a wrong secret")
		require.Error(t, stripe.ValidatePayload([]byte(`{"id": "evt_1"}`), header, secret), "a changed body")
		old := webhook.Sign(key, now.Add(-6*time.Minute), body)
		require.Error(t, stripe.ValidatePayload(body, old, secret), "an old timestamp")
	}
}

func TestSign_IsTheHMACOfTheInterfaceDocument(t *testing.T) {
	t.Parallel()
	// printf '1700000000.{}' | openssl dgst -sha256 -hmac secret
	got := webhook.Sign([]byte("secret"), time.Unix(1700000000, 0), []byte("{}"))
	require.Equal(t, "t=1700000000,v1="+"b8569b78799ff9e3cbff0fc2d63a33a2b57f3282abd07c37ae5e8e7d79a5f163", got)
}

func TestVerify(t *testing.T) {
	t.Parallel()
	secret, body := webhook.NewSecret(), []byte(`{"id":"evt_1"}`)
	now := time.Unix(1_800_000_000, 0)
	good := webhook.Sign([]byte(secret), now, body)
	v1 := good[strings.Index(good, "v1="):]
	for name, c := range map[string]struct {
		header string
		body   string
		at     time.Time
		want   error
	}{
		"right":                  {good, string(body), now, nil},
		"299 s late":             {good, string(body), now.Add(299 * time.Second), nil},
		"300 s late":             {good, string(body), now.Add(300 * time.Second), nil},
		"301 s late":             {good, string(body), now.Add(301 * time.Second), webhook.ErrSignatureTime},
		"301 s early":            {good, string(body), now.Add(-301 * time.Second), webhook.ErrSignatureTime},
		"changed body":           {good, `{"id": "evt_1"}`, now, webhook.ErrSignatureMismatch},
		"empty body":             {good, "", now, webhook.ErrSignatureMismatch},
		"byte order mark":        {good, "\ufeff" + string(body), now, webhook.ErrSignatureMismatch},
		"two v1, one right":      {fmt.Sprintf("%s,v1=%064d", good, 0), string(body), now, nil},
		"unknown scheme beside":  {good + ",v0=abc", string(body), now, nil},
		"only an unknown scheme": {fmt.Sprintf("t=%d,v0=abc", now.Unix()), string(body), now, webhook.ErrSignatureHeader},
		"no t":                   {v1, string(body), now, webhook.ErrSignatureHeader},
		"two t":                  {fmt.Sprintf("t=%d,%s", now.Unix(), good), string(body), now, webhook.ErrSignatureHeader},
		"t is text":              {"t=now," + v1, string(body), now, webhook.ErrSignatureHeader},
		"t is negative":          {"t=-1," + v1, string(body), now, webhook.ErrSignatureHeader},
		"t has a leading zero":   {fmt.Sprintf("t=0%d,%s", now.Unix(), v1), string(body), now, webhook.ErrSignatureHeader},
		"t is another":           {fmt.Sprintf("t=%d,%s", now.Unix()+1, v1), string(body), now, webhook.ErrSignatureMismatch},
		"upper-case hex":         {strings.Replace(good, v1, "v1="+strings.ToUpper(v1[3:]), 1), string(body), now, webhook.ErrSignatureHeader},
		"odd hex":                {good[:len(good)-1], string(body), now, webhook.ErrSignatureHeader},
		"short hex":              {good[:len(good)-2], string(body), now, webhook.ErrSignatureHeader},
		"extra space":            {strings.Replace(good, ",", ", ", 1), string(body), now, webhook.ErrSignatureHeader},
		"empty":                  {"", string(body), now, webhook.ErrSignatureHeader},
		"garbage":                {"garbage", string(body), now, webhook.ErrSignatureHeader},
	} {
		err := webhook.Verify(secret, c.header, []byte(c.body), c.at)
		if c.want == nil {
			require.NoError(t, err, name)
		} else {
			require.ErrorIs(t, err, c.want, name)
		}
	}
	require.ErrorIs(t, webhook.Verify(webhook.NewSecret(), good, body, now), webhook.ErrSignatureMismatch)
}
