// Package web is what the three servers, the REST API, the hosted page and the
// dashboard, have in common as HTTP servers: tracing, request ids, security
// headers, embedded files, compression, and the way from an error or a panic of a
// handler to the one function of a server that answers it.
package web

import (
	"net/http"
)

// Handler answers a request. It returns an error instead when it cannot; then it
// has written nothing.
type Handler func(w http.ResponseWriter, r *http.Request) error

// Fail answers a request with what an error is to its caller, and logs the error.
type Fail func(w http.ResponseWriter, r *http.Request, err error)

// Serve answers with h. An error of h and a panic, as a *Panic, go to fail. After
// a panic in the middle of an answer the connection is cut, so that the caller
// does not take a part of the answer for the whole.
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

// answer knows whether something of it was written.
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

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// discard takes an answer that comes too late.
type discard struct{}

func (discard) Header() http.Header         { return http.Header{} }
func (discard) Write(b []byte) (int, error) { return len(b), nil }
func (discard) WriteHeader(int)             {}
