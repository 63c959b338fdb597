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

// Route is Trace for the handler of one route. pattern is the route's template.
func Route(server, pattern string, next http.Handler) http.Handler {
	traced := Trace(server, next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Pattern = pattern
		traced.ServeHTTP(w, r)
	})
}

// Trace traces and measures next as a part of server. Spans and metrics name a request by
// r.Pattern, its route's template; set it before. The span has the request's id.
//
// Spans and metrics hold nothing else that the caller wrote. A path may hold an invitation's token
// or an id that opens a page, and headers may hold any text. So the tracing library sees only the
// copy that shown returns. A caller's trace is linked but not continued, because the service
// decides itself what to sample.
func Trace(server string, next http.Handler) http.Handler {
	traced := otelhttp.NewHandler(http.HandlerFunc(func(w http.ResponseWriter, shown *http.Request) {
		ctx := shown.Context()
		r := ctx.Value(requestKey{}).(*http.Request).WithContext(ctx)
		r.Body = shown.Body // counts the bytes read
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

// requestKey is the context key of the original request.
type requestKey struct{}

// shown returns the copy of a request that the tracing library may see. The copy's path is the
// route's template. From the caller's trace it keeps only Traceparent, because tracestate may hold
// any text.
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

// Method returns r's method for spans and logs. An unknown method is "_OTHER", as OpenTelemetry's
// convention says, because a client can send any word.
func Method(r *http.Request) string {
	if known[r.Method] {
		return r.Method
	}
	return "_OTHER"
}

// known are the methods of HTTP.
var known = map[string]bool{
	http.MethodGet: true, http.MethodHead: true, http.MethodPost: true, http.MethodPut: true, http.MethodPatch: true,
	http.MethodDelete: true, http.MethodOptions: true, http.MethodConnect: true, http.MethodTrace: true,
}
