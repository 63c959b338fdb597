package service

import (
	"net/http"
	"sync/atomic"

	"example.com/checkout/api"
	"example.com/checkout/api/health"
)

// gate answers with one handler until it gets the next one.
type gate struct{ handler atomic.Pointer[http.Handler] }

// newGate returns a gate that answers with state's health until it is opened. Open it before state works.
func newGate(state *health.State) *gate {
	g := &gate{}
	g.open(api.Waiting(state, g))
	return g
}

func (g *gate) open(next http.Handler) { g.handler.Store(&next) }

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) { (*g.handler.Load()).ServeHTTP(w, r) }
