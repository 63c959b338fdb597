package web_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/api/web"
)

// serve answers a request with h, and an error with its text and 500.
func serve(t *testing.T, h web.Handler) (w *httptest.ResponseRecorder, failed error) {
	w = httptest.NewRecorder()
	web.Serve(h, func(w http.ResponseWriter, _ *http.Request, err error) {
		failed = err
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
	return w, failed
}

func TestServe_AnErrorGoesToFail(t *testing.T) {
	t.Parallel()
	w, err := serve(t, func(http.ResponseWriter, *http.Request) error { return io.ErrUnexpectedEOF })
	require.Equal(t, http.StatusInternalServerError, w.Code)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	w, err = serve(t, func(w http.ResponseWriter, _ *http.Request) error { w.WriteHeader(http.StatusTeapot); return nil })
	require.Equal(t, http.StatusTeapot, w.Code)
	require.NoError(t, err)
}

func TestServe_APanicIsAnErrorWithoutItsValue(t *testing.T) {
	t.Parallel()
	for value, says := range map[any]string{
		"card 4242424242424242":             "panic: string",
		errors.New("card 4242424242424242"): "panic: *errors.errorString",
	} {
		w, err := serve(t, func(http.ResponseWriter, *http.Request) error { panic(value) })
		require.Equal(t, http.StatusInternalServerError, w.Code)
		p, ok := errors.AsType[*web.Panic](err)
		require.True(t, ok)
		require.Equal(t, says, p.Error())
		require.Contains(t, p.Stack, "web_test.go")
	}
	_, err := serve(t, func(http.ResponseWriter, *http.Request) error { return []error{}[len(t.Name())] })
	require.ErrorContains(t, err, "index out of range")
}

func TestServe_APanicAfterTheFirstByteCutsTheConnection(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(web.Serve(func(w http.ResponseWriter, _ *http.Request) error {
		_, _ = io.WriteString(w, "half") // to a test
		_ = http.NewResponseController(w).Flush()
		panic("and then")
	}, func(w http.ResponseWriter, _ *http.Request, err error) {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}))
	defer server.Close()
	res, err := http.Get(server.URL)
	require.NoError(t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.Equal(t, "half", string(text))
}

func TestServe_AHandlerMayCutTheConnectionItself(t *testing.T) {
	t.Parallel()
	require.PanicsWithValue(t, http.ErrAbortHandler, func() {
		_, _ = serve(t, func(http.ResponseWriter, *http.Request) error { panic(http.ErrAbortHandler) })
	})
}

func TestPageHeaders_LetAPageLoadItsOwnServersFilesOnly(t *testing.T) {
	t.Parallel()
	for policy, want := range map[string]string{
		web.Policy(web.Sources{}): "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; font-src 'self'; " +
			"connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
		web.Policy(web.Sources{Pictures: []string{"data:"}}): "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; font-src 'self'; " +
			"connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
		web.Policy(web.Sources{Scripts: []string{"https://a.test", "https://*.a.test"}, Frames: []string{"https://b.test"}, Connections: []string{"https://c.test"}}): "default-src 'none'; " +
			"style-src 'self'; script-src 'self' https://a.test https://*.a.test; img-src 'self'; font-src 'self'; connect-src 'self' https://c.test; " +
			"frame-src https://b.test; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
	} {
		for https, sts := range map[bool]string{false: "", true: "max-age=31536000"} {
			w := httptest.NewRecorder()
			web.PageHeaders(policy, https, http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
			for name, value := range map[string]string{
				"Content-Security-Policy": want, "Strict-Transport-Security": sts,
				"Referrer-Policy": "no-referrer", "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY",
				"X-Robots-Tag": "noindex, nofollow", "Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
			} {
				require.Equal(t, value, w.Header().Get(name), name)
			}
			require.Contains(t, w.Header().Get("Permissions-Policy"), "camera=()")
		}
	}
}

func TestLogFailure_SaysHowSeriousItIs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status int
		err    error
		want   string // "" for nothing
	}{
		{http.StatusNotFound, io.EOF, ""},
		{http.StatusTooManyRequests, io.EOF, ""},
		{http.StatusServiceUnavailable, io.EOF, "level=WARN"},
		{http.StatusServiceUnavailable, context.Canceled, "level=INFO"},
		{http.StatusInternalServerError, io.EOF, "level=ERROR"},
	} {
		var log bytes.Buffer
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/canary", nil)
		r.Pattern = "/{id}"
		web.LogFailure(r, slog.New(slog.NewTextHandler(&log, nil)), "page", c.status, c.err, slog.String("more", "this"))
		if c.want == "" {
			require.Empty(t, log.String())
			continue
		}
		for _, part := range []string{c.want, "route=/{id}", "more=this", "error=" + `"?` + c.err.Error()} {
			require.Regexp(t, part, log.String())
		}
		require.NotContains(t, log.String(), "canary")
	}
}
