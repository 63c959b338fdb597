package api

import (
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/storage"
	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
)

func TestRequestLog_HasEveryRequestWithAKeyAndNothingSecret(t *testing.T) {
	var requests *RequestLog
	f := newFront(t, func(c *Config) {
		requests = NewRequestLog(c.Store.Requests, c.Log)
		c.Requests = requests
	})
	f.do("GET", "/v1/merchant", "", "")               // no key, no row
	f.do("GET", "/v1/merchant", "sk_test_canary", "") // no merchant has this key: no row
	f.do("GET", "/v1/checkout/canary?canary=1", f.key, "", "X-Request-Id", "chosen-1")
	f.do("POST", "/v1/checkout", f.key, `{"canary": 1}`)
	f.do("GET", "/v1/merchant", f.merchant.liveKey, "")
	requests.Flush(t.Context())
	body := with("metadata", `{"order_id": "order-1"}`) // its fields have a random order
	created := f.do("POST", "/v1/checkout", f.key, body, "Idempotency-Key", "k")
	session := created.json["id"].(string)
	f.do("POST", "/v1/checkout", f.key, body, "Idempotency-Key", "k") // repeated
	f.do("POST", "/v1/checkout", f.key, body)                         // taken
	f.do("GET", "/v1/checkout/"+session, f.key, "")
	f.do("POST", "/v1/checkout/"+session+"/expire", f.key, "")
	f.do("GET", "/v1/checkout/"+session, f.merchant.liveKey, "") // a 404
	requests.Flush(t.Context())
	list := func(mode checkout.Mode) (rows []merchant.APIRequest) {
		rows, err := f.store.Requests.Requests(t.Context(), f.merchant.Owner(mode), storage.RequestFilter{}, pg.Page{Limit: 10})
		require.NoError(t, err)
		return rows
	}
	live := list(checkout.ModeLive)
	require.Len(t, live, 2)
	require.Empty(t, live[0].SessionID, "of another mode")
	got := list(checkout.ModeTest)
	require.Len(t, got, 7)
	for _, r := range got[:5] {
		require.Equal(t, session, r.SessionID, "%s %s: %d", r.Method, r.Route, r.Status)
	}
	for _, r := range got[5:] {
		require.Empty(t, r.SessionID)
		require.Equal(t, f.merchant.testKeyID, r.KeyID)
		if r.Method == http.MethodGet {
			require.Equal(t, "/v1/checkout/{id}", r.Route)
			require.Equal(t, "chosen-1", r.RequestID)
			require.Equal(t, 404, r.Status)
			require.Equal(t, codeNotFound, r.Error)
		} else {
			require.Equal(t, 400, r.Status)
			require.Equal(t, codeInvalidRequest, r.Error)
			require.True(t, checkout.IsID(checkout.PrefixRequest, r.RequestID))
		}
	}
}

func TestRequestLog_DropsWhatItCannotHold(t *testing.T) {
	f := newFront(t)
	requests := NewRequestLog(f.store.Requests, slog.New(slog.DiscardHandler))
	row := func() merchant.APIRequest {
		ex := &exchange{requestID: "r", caller: storage.Caller{Key: merchant.APIKey{Ref: f.merchant.Owner(checkout.ModeTest).Ref("key_1")}}}
		return ex.logged("GET", "/v1/merchant", 200, "", time.Now())
	}
	for range requestBuffer + 5 {
		requests.add(t.Context(), row())
	}
	requests.Flush(t.Context())
	require.Equal(t, requestBuffer, f.count("api_request"))

	f.exec(`ALTER TABLE api_request RENAME TO gone`)
	requests.add(t.Context(), row())
	requests.Flush(t.Context())
	f.exec(`ALTER TABLE gone RENAME TO api_request`)
	requests.add(t.Context(), row())
	requests.Flush(t.Context())
	require.Equal(t, requestBuffer+1, f.count("api_request"), "a batch that failed holds up none")
}
