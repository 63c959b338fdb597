package page

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// acquirer stands for Stripe on an origin of its own, and on a site of its own: localhost is another
// site than 127.0.0.1.
type acquirer struct {
	url string

	mu    sync.Mutex
	away  bool // the script is not there
	hangs chan struct{}
	cards []acquirerCard // what was typed into the frame
}

// acquirerCard is what the frame sends to its own origin.
type acquirerCard struct {
	Number, Exp, CVC string
	Params           struct {
		PaymentMethodData struct {
			BillingDetails struct{ Email string } `json:"billing_details"`
		} `json:"payment_method_data"`
	}
}

func startAcquirer(t *testing.T) *acquirer {
	t.Helper()
	a := &acquirer{}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /stripe.js", func(w http.ResponseWriter, r *http.Request) {
		a.mu.Lock()
		away, hangs := a.away, a.hangs
		a.mu.Unlock()
		if hangs != nil {
			<-hangs
		}
		if away {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		http.ServeFile(w, r, "testdata/stripe.js")
	})
	mux.HandleFunc("GET /frame", func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, "testdata/frame.html") })
	mux.HandleFunc("POST /token", func(w http.ResponseWriter, r *http.Request) {
		var card acquirerCard
		if err := json.NewDecoder(r.Body).Decode(&card); err != nil {
			t.Error(err)
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		a.cards = append(a.cards, card)
		answer := fmt.Sprintf(`{"confirmationToken": {"id": "ctoken_%d"}}`, len(a.cards))
		switch {
		case strings.HasPrefix(card.Number, "4000"):
			answer = `{"error": {"type": "card_error", "message": "Your card was declined."}}`
		case strings.HasPrefix(card.Number, "5000"):
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

// set changes the stand-in's behaviour.
func (a *acquirer) set(change func(*acquirer)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change(a)
}

// typed returns the card numbers that the frame sent.
func (a *acquirer) typed() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var all []string
	for _, c := range a.cards {
		all = append(all, c.Number)
	}
	return all
}

// email returns the address that came with the first card.
func (a *acquirer) email() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.cards[0].Params.PaymentMethodData.BillingDetails.Email
}
