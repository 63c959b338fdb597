package page

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// acquirer stands for Stripe on an origin of its own, and on a site of its own: localhost is another
// site than 127.0.0.1.
type acquirer struct {
	url  string
	away atomic.Bool  // its script is not there
	hang sync.RWMutex // while it is locked, the script does not come

	mu    sync.Mutex
	cards []string // what was typed into the frame: "number e-mail"
}

func startAcquirer(t *testing.T) *acquirer {
	a := &acquirer{}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /stripe.js", func(w http.ResponseWriter, r *http.Request) {
		a.hang.RLock()
		defer a.hang.RUnlock()
		if a.away.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		http.ServeFile(w, r, "testdata/stripe.js")
	})
	mux.HandleFunc("GET /frame", func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, "testdata/frame.html") })
	mux.HandleFunc("POST /token", func(w http.ResponseWriter, r *http.Request) {
		var card struct {
			Number string
			Params struct {
				PaymentMethodData struct {
					BillingDetails struct{ Email string } `json:"billing_details"`
				} `json:"payment_method_data"`
			}
		}
		assert.NoError(t, json.NewDecoder(r.Body).Decode(&card))
		a.mu.Lock()
		defer a.mu.Unlock()
		a.cards = append(a.cards, card.Number+" "+card.Params.PaymentMethodData.BillingDetails.Email)
		answer := fmt.Sprintf(`{"confirmationToken": {"id": "ctoken_%d"}}`, len(a.cards))
		switch card.Number {
		case cardDeclined:
			answer = `{"error": {"type": "card_error", "message": "Your card was declined."}}`
		case cardOdd:
			answer = `{"error": {"type": "invalid_request_error", "message": "No such parameter: for programmers"}}`
		}
		_, _ = w.Write([]byte(answer)) // the browser has gone
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	a.url = strings.Replace(server.URL, "127.0.0.1", "localhost", 1)
	require.NotEqual(t, server.URL, a.url)
	return a
}

// typed returns what the frame sent: "number e-mail".
func (a *acquirer) typed() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.cards)
}
