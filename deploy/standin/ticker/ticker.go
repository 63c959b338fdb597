// Package ticker is a double of the public price services of Kraken and Coinbase Exchange, in their own
// formats.
package ticker

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/shopspring/decimal"

	"example.com/checkout/workflows/checkout"
)

// A Fault is how a source misbehaves.
type Fault string

// Faults that can be set. A Stale Coinbase says that its prices are an hour old; Kraken tells no time,
// so Stale changes nothing there. A Slow source never answers. A Wrong one answers with a page of HTML,
// and one that is Away with 503.
const (
	Stale Fault = "stale"
	Wrong Fault = "wrong"
	Slow  Fault = "slow"
	Away  Fault = "away"
)

// Sources that the double plays, which are also the first part of their paths.
const (
	Kraken   = "kraken"
	Coinbase = "coinbase"
)

// krakenKeys are the names that Kraken gives to pairs in an answer, by their names in a request.
var krakenKeys = map[string]string{
	"XBTUSD": "XXBTZUSD", "XBTEUR": "XXBTZEUR", "XBTGBP": "XXBTZGBP", "XBTCAD": "XXBTZCAD", "XBTAUD": "XBTAUD",
	"ETHUSD": "XETHZUSD", "ETHEUR": "XETHZEUR", "ETHGBP": "XETHZGBP", "ETHCAD": "XETHZCAD", "ETHAUD": "ETHAUD",
	"USDTUSD": "USDTZUSD", "USDCUSD": "USDCUSD", "EURUSD": "ZEURZUSD", "GBPUSD": "ZGBPZUSD", "AUDUSD": "AUDUSD",
	"USDCAD": "ZUSDZCAD",
}

// testPrices returns the prices of the test mode in US dollars, by currency.
func testPrices() map[string]decimal.Decimal {
	prices := map[string]decimal.Decimal{}
	for _, c := range checkout.Currencies {
		prices[string(c)] = decimal.RequireFromString(c.TestPrice())
	}
	for _, c := range checkout.PayoutCurrencies {
		prices[string(c)] = decimal.RequireFromString(c.TestPrice())
	}
	return prices
}

// A state is what one source knows.
type state struct {
	prices map[string]decimal.Decimal // in US dollars, by currency: "BTC", "EUR"
	fault  Fault
}

// Server is the double.
type Server struct {
	mux *http.ServeMux

	mu      sync.Mutex
	sources map[string]*state
}

// New returns a double whose prices are those of the test mode.
func New() *Server {
	s := &Server{mux: http.NewServeMux(), sources: map[string]*state{}}
	for _, source := range []string{Kraken, Coinbase} {
		s.sources[source] = &state{prices: testPrices()}
	}
	s.mux.HandleFunc("GET /kraken/0/public/Ticker", s.kraken)
	s.mux.HandleFunc("GET /coinbase/products/{product}/ticker", s.coinbase)
	return s
}

// Handler serves one source alone, with the paths of the real one.
func (s *Server) Handler(source string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.URL.Path = "/" + source + r.URL.Path
		s.mux.ServeHTTP(w, r)
	})
}

// SetPrice sets the price of a currency in US dollars, at one source or, with "", at both.
func (s *Server) SetPrice(source, currency string, usd decimal.Decimal) {
	s.each(source, func(st *state) { st.prices[currency] = usd })
}

// SetFault makes one source misbehave or, with "", both. The fault "" ends it.
func (s *Server) SetFault(source string, f Fault) {
	s.each(source, func(st *state) { st.fault = f })
}

func (s *Server) each(source string, do func(*state)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, st := range s.sources {
		if source == "" || source == name {
			do(st)
		}
	}
}

// book returns bid and ask of one unit of base in quote: 0.01 % on each side of the price. They are
// empty when a currency is not known.
func (s *Server) book(source, base, quote string) (bid, ask string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, q := s.sources[source].prices[base], s.sources[source].prices[quote]
	if q.IsZero() {
		return "", ""
	}
	price, side, one := b.DivRound(q, 10), decimal.New(1, -4), decimal.NewFromInt(1)
	return price.Mul(one.Sub(side)).StringFixed(10), price.Mul(one.Add(side)).StringFixed(10)
}

// misbehave answers for a source with a fault, and reports whether it has.
func (s *Server) misbehave(w http.ResponseWriter, r *http.Request, source string) bool {
	s.mu.Lock()
	fault := s.sources[source].fault
	s.mu.Unlock()
	switch fault {
	case Slow:
		<-r.Context().Done()
	case Away:
		http.Error(w, "Service Unavailable", http.StatusServiceUnavailable)
	case Wrong:
		_, _ = w.Write([]byte("<html>maintenance</html>")) // the reader may be gone
	default:
		return false
	}
	return true
}

func (s *Server) kraken(w http.ResponseWriter, r *http.Request) {
	if s.misbehave(w, r, Kraken) {
		return
	}
	result := map[string]any{}
	for name := range strings.SplitSeq(r.URL.Query().Get("pair"), ",") {
		key := krakenKeys[name]
		if key == "" {
			write(w, http.StatusOK, map[string]any{"error": []string{"EQuery:Unknown asset pair"}})
			return
		}
		base, quote := strings.Replace(name[:len(name)-3], "XBT", "BTC", 1), name[len(name)-3:]
		bid, ask := s.book(Kraken, base, quote)
		result[key] = map[string]any{"a": []string{ask, "1", "1.000"}, "b": []string{bid, "1", "1.000"},
			"c": []string{ask, "0.00067643"}, "t": []int{34619, 38907}, "o": ask}
	}
	write(w, http.StatusOK, map[string]any{"error": []string{}, "result": result})
}

func (s *Server) coinbase(w http.ResponseWriter, r *http.Request) {
	if s.misbehave(w, r, Coinbase) {
		return
	}
	base, quote, _ := strings.Cut(r.PathValue("product"), "-")
	bid, ask := s.book(Coinbase, base, quote)
	if bid == "" || r.PathValue("product") == "USDC-USD" { // Coinbase takes one for the other
		write(w, http.StatusNotFound, map[string]any{"message": "NotFound"})
		return
	}
	at := time.Now().UTC()
	s.mu.Lock()
	if s.sources[Coinbase].fault == Stale {
		at = at.Add(-time.Hour)
	}
	s.mu.Unlock()
	write(w, http.StatusOK, map[string]any{"trade_id": 86326522, "price": ask, "size": "0.00698254", "bid": bid,
		"ask": ask, "volume": "53602.03940154", "time": at.Format(time.RFC3339Nano)})
}

func write(w http.ResponseWriter, status int, body map[string]any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the reader may be gone
}
