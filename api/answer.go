package api

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"example.com/checkout/api/web"
	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
)

// exchange holds the facts about one request that http.Request does not have.
type exchange struct {
	requestID string
	caller    storage.Caller     // zero before authentication
	allowance *storage.Allowance // nil before authentication
	sessionID string             // of the session that the answer is about, "" for none
	seed      []byte             // set for an idempotent request; nil: ids are random
	maxBody   int64              // bytes, when it is not maxBody
}

type exchangeKey struct{}

// withExchange gives every request an id and an exchange.
func withExchange(next http.Handler) http.Handler {
	return web.WithRequestID(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ex := &exchange{requestID: web.RequestID(r.Context())}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), exchangeKey{}, ex)))
	}))
}

// exchangeFrom returns the exchange of a request. It panics without withExchange.
func exchangeFrom(ctx context.Context) *exchange { return ctx.Value(exchangeKey{}).(*exchange) }

// serve adapts a handler to net/http. It bounds the time, recovers from panics, writes the answer
// and logs one line.
func (s *Server) serve(h handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
		defer cancel()

		status, body, err := call(h, r.WithContext(ctx))
		var text []byte
		if err == nil {
			text, err = encodeAnswer(w.Header(), body)
		}
		ex := exchangeFrom(ctx)
		code := ""
		if err != nil {
			status, code, text = encodeRefusal(w.Header(), err, ex.requestID)
		}

		if ex.allowance != nil {
			limitHeaders(w.Header(), *ex.allowance)
		}
		web.SetDataHeaders(w.Header())
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(text))) // net/http does not know it after HEAD
		read := http.NewResponseController(w)
		if status == http.StatusRequestEntityTooLarge {
			w.Header().Set("Connection", "close")
			_ = read.EnableFullDuplex() // the answer goes out before the body has come; HTTP/2 needs nothing
		}
		w.WriteHeader(status)
		_, _ = w.Write(text) // #nosec G705 -- JSON, sent as such with nosniff; an error means that the client has gone
		if status == http.StatusRequestEntityTooLarge {
			_ = read.Flush()
			linger(read, r)
		}
		s.log(ctx, r, ex, status, time.Since(began), err)
		if s.Requests != nil && ex.caller.Key.ID != "" {
			s.Requests.add(ctx, ex.logged(web.Method(r), r.Pattern, status, code, began))
		}
	})
}

// linger reads what else comes of a body that is too large. Many clients send all before they read: a closed
// connection would hide the answer from them.
func linger(read *http.ResponseController, r *http.Request) {
	const most, longest = 32 << 20, 5 * time.Second
	_ = read.SetReadDeadline(time.Now().Add(longest)) // HTTP/1 only; ReadTimeout is the other bound
	_, _ = io.CopyN(io.Discard, r.Body, most)         // an error means that the client has gone
}

// encodeAnswer returns the text of a handler's answer and sets its headers.
func encodeAnswer(header http.Header, body any) ([]byte, error) {
	if kept, ok := body.(replayed); ok {
		header.Set("Idempotent-Replayed", "true")
		body = kept.body
	}
	if at, ok := body.(located); ok {
		if at.location != "" {
			header.Set("Location", at.location)
		}
		body = at.body
	}
	return encode(body)
}

// encodeRefusal returns the status, the code and the text for an error, and sets its headers.
func encodeRefusal(header http.Header, err error, requestID string) (status int, code string, text []byte) {
	e := refusalOf(err)
	for name, value := range e.header {
		header.Set(name, value)
	}
	e.body.RequestID = requestID
	text, _ = encode(e.body) // cannot fail: the body has only strings
	return e.kind.Status(), e.body.Error, text
}

func encode(body any) ([]byte, error) {
	text, err := checkout.EncodeJSON(body)
	if err != nil {
		return nil, fmt.Errorf("encode answer: %w", err)
	}
	return append(text, '\n'), nil
}

// call calls h and turns a panic into an error.
func call(h handler, r *http.Request) (status int, body any, err error) {
	defer web.Catch(&err)
	return h(r)
}

// log writes the request's one log line. It leaves out path, query, headers and body: they may hold
// merchants' secrets or customers' data.
func (s *Server) log(ctx context.Context, r *http.Request, ex *exchange, status int, took time.Duration, err error) {
	level := web.Level(status, err)
	if status < http.StatusInternalServerError && (r.Pattern == "/healthz" || r.Pattern == "/readyz") {
		level = slog.LevelDebug // probes come every second
	}
	attrs := []slog.Attr{
		slog.String("method", web.Method(r)), slog.String("route", r.Pattern), slog.Int("status", status),
		slog.Duration("duration", took), slog.String("request_id", ex.requestID),
	}
	if ex.caller.Key.ID != "" {
		attrs = append(attrs, slog.String("merchant_id", ex.caller.Merchant.ID),
			slog.String("mode", string(ex.caller.Key.Mode)), slog.String("key_id", ex.caller.Key.ID))
	}
	if ex.sessionID != "" {
		attrs = append(attrs, slog.String("session_id", ex.sessionID))
	}
	if status >= http.StatusInternalServerError {
		attrs = append(attrs, web.ErrorAttrs(err)...)
	}
	s.Log.LogAttrs(ctx, level, "request", attrs...)
}
