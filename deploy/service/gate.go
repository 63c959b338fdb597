package service

import (
	"net/http"
	"sync/atomic"
)

// gate answers with one handler until it gets the next one.
type gate struct{ handler atomic.Pointer[http.Handler] }

func newGate(first http.Handler) *gate {
	g := &gate{}
	g.open(first)
	return g
}

func (g *gate) open(next http.Handler) { g.handler.Store(&next) }

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) { (*g.handler.Load()).ServeHTTP(w, r) }
