package web

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

// Route is Trace for a handler of one route, whose template is pattern.
func Route(server, pattern string, next http.Handler) http.Handler {
	traced := Trace(server, next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Pattern = pattern
		traced.ServeHTTP(w, r)
	})
}

// Trace traces and measures next as a part of server. The span and the metrics
// know a request by r.Pattern, the template of its route, which is set before. The
// span has the request's id.
//
// Nothing else that the caller wrote gets into them: a path may hold an invitation's
// token or an id that opens a page, and headers hold whatever the caller's software
// put there. So the tracing never sees the request, only what shown leaves of it. A
// caller's trace is linked and not continued: whether we sample is ours to decide.
func Trace(server string, next http.Handler) http.Handler {
	traced := otelhttp.NewHandler(http.HandlerFunc(func(w http.ResponseWriter, shown *http.Request) {
		ctx := shown.Context()
		r := ctx.Value(requestKey{}).(*http.Request).WithContext(ctx)
		r.Body = shown.Body // it counts what is read
		if id := RequestID(ctx); id != "" {
			trace.SpanFromContext(ctx).SetAttributes(attribute.String("request_id", id))
		}
		next.ServeHTTP(w, r)
	}), server,
		otelhttp.WithServerName(server), // not the Host header
		otelhttp.WithPublicEndpointFn(func(*http.Request) bool { return true }))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		traced.ServeHTTP(w, shown(r).WithContext(context.WithValue(r.Context(), requestKey{}, r)))
	})
}

// requestKey is where the request waits until the span has begun.
type requestKey struct{}

// shown is what the tracing sees of a request. Its path is the template of the
// route, and of a link only the ids are left: tracestate may hold any text.
func shown(r *http.Request) *http.Request {
	s := &http.Request{
		Method: Method(r), Pattern: r.Pattern, URL: &url.URL{}, Header: http.Header{}, Body: r.Body,
		Proto: r.Proto, ProtoMajor: r.ProtoMajor, ProtoMinor: r.ProtoMinor, TLS: r.TLS, RemoteAddr: r.RemoteAddr,
	}
	if strings.HasPrefix(r.Pattern, "/") {
		s.URL.Path = r.Pattern
	}
	if parent := r.Header.Values("Traceparent"); len(parent) == 1 {
		s.Header.Set("Traceparent", parent[0])
	}
	return s
}

// Method is the method of r for spans and logs: any word can be sent, and one that
// nobody can mean is "_OTHER", as the convention has it.
func Method(r *http.Request) string {
	if known[r.Method] {
		return r.Method
	}
	return "_OTHER"
}

// known are the methods that somebody may mean.
var known = map[string]bool{
	http.MethodGet: true, http.MethodHead: true, http.MethodPost: true, http.MethodPut: true, http.MethodPatch: true,
	http.MethodDelete: true, http.MethodOptions: true, http.MethodConnect: true, http.MethodTrace: true,
}
