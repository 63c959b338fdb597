package api

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/money"
)

// corpusSeeds are the values and bodies of a category of the corpus of input; its
// notation stays as it is, as input like any other.
func corpusSeeds(f *testing.F, category string) (values, bodies []string) {
	paths, err := filepath.Glob("../deploy/proof/e2e/testdata/corpus/*/" + category + ".yaml")
	require.NoError(f, err)
	require.NotEmpty(f, paths)
	for _, path := range paths {
		text, err := os.ReadFile(path)
		require.NoError(f, err)
		var file struct {
			Defaults struct{ Template string }
			Values   [][3]string
			Cases    []struct{ Value, Body *string }
		}
		require.NoError(f, yaml.Unmarshal(text, &file))
		for _, v := range file.Values {
			file.Cases = append(file.Cases, struct{ Value, Body *string }{Value: &v[1]})
		}
		for _, c := range file.Cases {
			if c.Value != nil {
				values = append(values, *c.Value)
				bodies = append(bodies, strings.ReplaceAll(file.Defaults.Template, "‹value›", *c.Value))
			}
			if c.Body != nil {
				bodies = append(bodies, *c.Body)
			}
		}
	}
	return values, bodies
}

// seedsOfCategory leaves most of a short run for new input, because each seed costs about 20 ms.
const seedsOfCategory = 25

// FuzzNewSession sends a body of any bytes. The body is refused in the service's own words, or it
// gives a session within bounds. Such a session, written as a body again, is read as the same
// session.
func FuzzNewSession(f *testing.F) {
	for _, category := range []string{"json", "amount", "currency", "metadata", "email", "redirect_url"} {
		_, bodies := corpusSeeds(f, category)
		for _, body := range bodies[:min(len(bodies), seedsOfCategory)] {
			f.Add([]byte(body), false)
		}
	}
	f.Add([]byte(`{"amount":1,"currency":"USD","payout_currency":"BTC","webhook_url":"https://a.example","livemode":true}`), true)
	for _, number := range []string{"1e999999999", "1E400", "-1e309", "1e-400", "9007199254740993", "9007199254740992", "59.970000000000006", "0e999999999", "1.7976931348623157e308"} {
		f.Add([]byte(`{"amount":1,"currency":"USD","payout_currency":"BTC","metadata":{"n":`+number+`}}`), false)
	}
	s := newServer(Config{
		SessionLifetime: checkout.SessionLifetime,
		CheckAddress:    func(context.Context, checkout.Mode, string) error { return nil },
	})
	f.Fuzz(func(t *testing.T, body []byte, live bool) {
		caller := storage.Caller{Merchant: merchant.Merchant{ID: "mer_1", PaymentAttempts: 3, OrderIDGuard: true}, Key: merchant.APIKey{Ref: checkout.Ref{Owner: checkout.Owner{Mode: checkout.ModeTest}}}}
		if live {
			caller.Key.Mode = checkout.ModeLive
		}
		got, err := s.decodeSession(t.Context(), caller, body)
		if err != nil {
			requireWords(t, err)
			return
		}
		requireInBounds(t, got.Session)
		again, err := s.decodeSession(t.Context(), caller, encodeSession(t, got.Session))
		require.NoError(t, err)
		again.ID = got.ID
		require.Equal(t, got, again)
	})
}

// decodeSession decodes a body like createSession, without a query of storage.
func (s *Server) decodeSession(ctx context.Context, caller storage.Caller, body []byte) (storage.NewSession, error) {
	r := &http.Request{
		Method: http.MethodPost, Header: http.Header{"Content-Type": {"application/json"}},
		ContentLength: int64(len(body)), Body: io.NopCloser(bytes.NewReader(body)),
	}
	return s.newSession(r.WithContext(context.WithValue(ctx, exchangeKey{}, &exchange{caller: caller})))
}

// requireWords: a refusal is one of ours, below 500, and can be sent.
func requireWords(t *testing.T, err error) {
	var known *refusal
	require.True(t, errors.As(err, &known), "%v", err)
	require.Less(t, refusalOf(err).kind.Status(), 500)
	require.NotEmpty(t, known.body.Message)
	require.LessOrEqual(t, len(known.body.Errors), maxFaults)
	text, err := encode(known.body)
	require.NoError(t, err)
	require.True(t, json.Valid(text))
}

func requireInBounds(t *testing.T, s checkout.Session) {
	require.GreaterOrEqual(t, s.Amount, money.MinAmount)
	require.LessOrEqual(t, s.Amount, money.MaxAmount)
	require.True(t, s.Currency.Valid() && s.PayoutCurrency.Valid())
	require.LessOrEqual(t, len(s.Metadata), maxMetadata)
	var pairs map[string]any
	require.NoError(t, json.Unmarshal(s.Metadata, &pairs), "a reader with 64-bit floats")
	require.LessOrEqual(t, len(pairs), maxPairs)
	for _, address := range []*string{s.RedirectURL, s.CancelURL, s.WebhookURL} {
		if address != nil {
			u, err := url.Parse(*address)
			require.NoError(t, err)
			require.True(t, u.Host != "" && u.User == nil && (u.Scheme == "https" || (u.Scheme == "http" && !s.Mode.Live())), *address)
		}
	}
	if s.LineItems != nil {
		require.Equal(t, s.Amount, checkout.SumOf(s.LineItems))
	}
	if s.CustomerEmail != nil {
		require.True(t, checkout.ValidEmail(*s.CustomerEmail))
	}
}

func encodeSession(t *testing.T, s checkout.Session) []byte {
	body, err := checkout.EncodeJSON(map[string]any{
		"amount": s.Amount, "currency": s.Currency, "payout_currency": s.PayoutCurrency, "customer_email": s.CustomerEmail,
		"metadata": s.Metadata, "redirect_url": s.RedirectURL, "webhook_url": s.WebhookURL, "livemode": s.Mode.Live(),
		"cancel_url": s.CancelURL, "description": s.Description, "locale": s.Locale, "line_items": s.LineItems,
	})
	require.NoError(t, err)
	return body
}

// FuzzBearerHash checks that a key is read only from one header of the exact form, and that the
// hash covers the key and nothing around it.
func FuzzBearerHash(f *testing.F) {
	values, _ := corpusSeeds(f, "authorization")
	for _, value := range values {
		f.Add(value, "")
	}
	for _, headers := range badAuthorization {
		if len(headers) == 1 {
			f.Add(headers[0], "")
		}
	}
	key := merchant.NewAPIKey(checkout.ModeTest)
	for _, value := range []string{"Bearer " + key, "bearer " + key, "BEARER " + key, "Bearer  " + key, "Bearer\t" + key, "Bearer " + key + " ", "Bearer " + key + "0", "Basic " + key} {
		f.Add(value, "")
	}
	f.Add("Bearer "+key, "Bearer "+key)
	f.Fuzz(func(t *testing.T, first, second string) {
		headers := []string{first}
		if second != "" {
			headers = append(headers, second)
		}
		hash, ok := bearerHash(headers)
		// "Bearer" and a space are 7 bytes, a key has 72.
		const scheme, length = 7, 72
		want := len(headers) == 1 && len(first) == scheme+length && strings.ToLower(first[:scheme]) == "bearer " &&
			(strings.HasPrefix(first[scheme:], "sk_test_") || strings.HasPrefix(first[scheme:], "sk_live_")) &&
			strings.Trim(first[scheme:], "_0123456789abcdefghijklmnopqrstuvwxyz") == ""
		require.Equal(t, want, ok, "%q %q", first, second)
		if !ok {
			require.Nil(t, hash)
			return
		}
		sum := sha256.Sum256([]byte(first[scheme:]))
		require.Equal(t, sum[:], hash)
		require.True(t, strings.EqualFold(first[:6], "bearer"))
	})
}

// FuzzCursor checks that a cursor passes if and only if it is an id of the list's own kind: 26
// letters of its alphabet and nothing else. PostgreSQL gets it unchanged. Any other text is a fault
// of cursor or of the query.
func FuzzCursor(f *testing.F) {
	values, _ := corpusSeeds(f, "list_queries")
	for _, value := range values {
		f.Add(value)
	}
	id := checkout.NewID(checkout.PrefixSession)
	for _, query := range []string{"cursor=" + id, "cursor=" + id + "%0A", "cursor=" + id[:26] + "%FF00", "cursor=" + strings.ToUpper(id), "cursor=" + id + "&limit=100", "cursor=cs_" + strings.Repeat("z", 26), "cursor=" + checkout.NewID("evt")} {
		f.Add(query)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		r := &http.Request{URL: &url.URL{RawQuery: raw}}
		q := readQuery(r)
		page := q.page(checkout.PrefixSession)
		if err := q.err(); err != nil {
			requireWords(t, err)
			return
		}
		require.True(t, page.Limit >= 1 && page.Limit <= maxLimit)
		require.True(t, page.Since.IsZero() || page.Until.IsZero() || page.Since.Before(page.Until))
		parsed, err := url.ParseQuery(raw)
		require.NoError(t, err)
		require.Equal(t, parsed.Get("cursor"), page.Before)
		if page.Before != "" || parsed.Has("cursor") {
			body, ok := strings.CutPrefix(page.Before, "cs_")
			require.True(t, ok)
			require.Len(t, body, 26)
			require.Empty(t, strings.Trim(body, "0123456789abcdefghjkmnpqrstvwxyz"))
		}
	})
}
