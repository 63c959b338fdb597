package chains

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
)

// A FeeMarket passes calls on to a Bitcoin node and sets what it estimates a fee at: a chain of a test has no market.
type FeeMarket struct {
	node   string // its URL
	server *httptest.Server

	mu   sync.Mutex
	rate string
}

// NewFeeMarket starts a market for the node at a URL, which need not answer yet. The caller must close it.
func NewFeeMarket(node string) *FeeMarket {
	m := &FeeMarket{node: node}
	m.server = httptest.NewServer(http.HandlerFunc(m.serve))
	return m
}

// URL returns the address, with the node's user.
func (m *FeeMarket) URL() string {
	return strings.Replace(m.server.URL, "http://", "http://"+bitcoinUser+"@", 1)
}

// Port returns its port on 127.0.0.1.
func (m *FeeMarket) Port() int { return m.server.Listener.Addr().(*net.TCPAddr).Port }

// Close ends it.
func (m *FeeMarket) Close() { m.server.Close() }

// Set sets the price of 1,000 virtual bytes, in bitcoins. "" is the node's own estimate.
func (m *FeeMarket) Set(rate string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rate = rate
}

func (m *FeeMarket) serve(w http.ResponseWriter, request *http.Request) {
	asked, err := io.ReadAll(request.Body)
	if err != nil {
		return
	}
	onward, err := http.NewRequestWithContext( //nolint:gosec // G704: our node
		request.Context(), http.MethodPost, m.node+request.URL.EscapedPath(), bytes.NewReader(asked))
	if err != nil {
		return
	}
	onward.Header = request.Header.Clone()
	answer, err := http.DefaultClient.Do(onward) //nolint:gosec // G704: our node
	if err != nil {
		http.Error(w, "the node is away", http.StatusBadGateway)
		return
	}
	defer answer.Body.Close()
	content, err := io.ReadAll(answer.Body)
	if err != nil {
		http.Error(w, "the node went away", http.StatusBadGateway)
		return
	}
	w.WriteHeader(answer.StatusCode)
	_, _ = w.Write(m.priced(asked, content)) // the client may be gone
}

// priced replaces the node's estimate in the answers to a batch.
func (m *FeeMarket) priced(asked, answered []byte) []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	var (
		questions []struct {
			Method string `json:"method"`
		}
		answers []map[string]json.RawMessage
	)
	if m.rate == "" || json.Unmarshal(asked, &questions) != nil || json.Unmarshal(answered, &answers) != nil {
		return answered
	}
	for i, q := range questions {
		if q.Method == "estimatesmartfee" {
			answers[i]["result"] = json.RawMessage(`{"feerate":` + m.rate + `,"blocks":6}`)
		}
	}
	changed, err := json.Marshal(answers)
	if err != nil {
		return answered
	}
	return changed
}
