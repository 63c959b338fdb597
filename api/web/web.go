// Package web is the HTTP code that three servers share: the REST API, the hosted page and the
// dashboard. It has tracing, request ids, security headers, embedded files and compression. It
// passes a handler's error or panic to the one function of a server that answers errors.
package web

import (
	"net/http"
)

// Handler answers a request. When it returns an error, it has written nothing.
type Handler func(w http.ResponseWriter, r *http.Request) error

// Fail answers a request after an error and logs the error.
type Fail func(w http.ResponseWriter, r *http.Request, err error)

// Serve answers with h and passes an error or a panic, as a *Panic, to fail. After a panic in the
// middle of an answer it cuts the connection, so that the caller does not take a part for the
// whole.
func Serve(h Handler, fail Fail) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := &answer{ResponseWriter: w}
		err := call(h, answer, r)
		switch {
		case err == nil:
		case !answer.begun:
			fail(w, r, err)
		default:
			fail(discard{}, r, err)
			panic(http.ErrAbortHandler)
		}
	})
}

func call(h Handler, w http.ResponseWriter, r *http.Request) (err error) {
	defer Catch(&err)
	return h(w, r)
}

// answer notes whether the handler has written anything.
type answer struct {
	http.ResponseWriter
	begun bool
}

func (a *answer) WriteHeader(status int) {
	a.begun = true
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Write(b []byte) (int, error) {
	a.begun = true
	return a.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach the original writer.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// discard drops an answer that comes too late.
type discard struct{}

func (discard) Header() http.Header         { return http.Header{} }
func (discard) Write(b []byte) (int, error) { return len(b), nil }
func (discard) WriteHeader(int)             {}
