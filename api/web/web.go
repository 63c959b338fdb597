// Package web is the HTTP code that three servers share: the REST API, the hosted page and the
// dashboard. It has tracing, request ids, security headers, embedded files and compression. It
// passes a handler's error or panic to the one function of a server that answers errors.
package web

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"runtime/debug"
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

// Panic is a panic as an error. A panic's value may hold data of a merchant or a customer. So Panic
// keeps only its type, or the text of a runtime error.
type Panic struct {
	Stack string
	what  string
}

func (p *Panic) Error() string { return "panic: " + p.what }

// NewPanic returns the panic whose value recover has just returned, with this goroutine's stack. A
// goroutine that works for another one gives it the result; the other one panics with it, and Catch
// then has both stacks.
func NewPanic(value any) *Panic {
	stack := string(debug.Stack())
	switch v := value.(type) {
	case *Panic:
		return &Panic{v.Stack + "\nfor the goroutine\n" + stack, v.what}
	case runtime.Error:
		return &Panic{stack, v.Error()}
	default:
		return &Panic{stack, fmt.Sprintf("%T", v)}
	}
}

// Catch sets *err to a *Panic when the function that defers Catch panics. It lets
// http.ErrAbortHandler through, because a handler uses that to cut the connection.
func Catch(err *error) {
	switch v := recover(); v {
	case nil:
	case http.ErrAbortHandler: // net/http compares so too
		panic(v)
	default:
		*err = NewPanic(v)
	}
}

// LogFailure logs an error that is answered with a status of 500 or more. The line has the
// request's id and route, but nothing that the caller sent. Other errors are the caller's mistakes
// and are not logged.
func LogFailure(r *http.Request, log *slog.Logger, server string, status int, err error, more ...slog.Attr) {
	if status < http.StatusInternalServerError {
		return
	}
	attrs := []slog.Attr{
		slog.String("method", Method(r)), slog.String("route", r.Pattern), slog.Int("status", status),
		slog.String("request_id", RequestID(r.Context())),
	}
	log.LogAttrs(r.Context(), Level(status, err), server, append(append(attrs, more...), ErrorAttrs(err)...)...)
}

// Level returns the log level of an answer. A fault of the service is an error. A 503 is a warning,
// because another system did not answer; it is information when the caller had gone.
func Level(status int, err error) slog.Level {
	switch {
	case status < http.StatusInternalServerError:
		return slog.LevelInfo
	case status != http.StatusServiceUnavailable:
		return slog.LevelError
	case errors.Is(err, context.Canceled):
		return slog.LevelInfo
	}
	return slog.LevelWarn
}

// ErrorAttrs returns the error's text and, for a panic, its stack.
func ErrorAttrs(err error) []slog.Attr {
	attrs := []slog.Attr{slog.String("error", err.Error())}
	if p, ok := errors.AsType[*Panic](err); ok {
		attrs = append(attrs, slog.String("stack", p.Stack))
	}
	return attrs
}
