package service

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"
)

// TestBehindProxies_WarnsOfAHeaderThatItDoesNotBelieve changes the default log, so it does not run in parallel.
func TestBehindProxies_WarnsOfAHeaderThatItDoesNotBelieve(t *testing.T) { //nolint:paralleltest // see above
	var log bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewJSONHandler(&log, nil)))
	t.Cleanup(func() { slog.SetDefault(before) })
	untrustedWarnings = rate.Sometimes{Interval: time.Minute}
	h := behindProxies(nil, http.NotFoundHandler())
	for _, forwarded := range []string{"", "192.0.2.7", "192.0.2.8"} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.RemoteAddr = "10.0.0.1:5"
		if forwarded != "" {
			r.Header.Set("X-Forwarded-For", forwarded)
		}
		h.ServeHTTP(httptest.NewRecorder(), r)
	}
	require.Equal(t, 1, strings.Count(log.String(), `"peer":"10.0.0.1:5"`), "once a minute: %s", log.String())
	require.NotContains(t, log.String(), "192.0.2.", "what the header says is anybody's")
}

func TestBehindProxies_BelievesOnlyWhatItsOwnProxiesWrote(t *testing.T) {
	t.Parallel()
	proxies := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8::/32")}
	for _, c := range []struct {
		peer      string
		forwarded []string
		want      string
	}{
		{"10.0.0.1:5", []string{"192.0.2.7"}, "192.0.2.7:0"},
		{"10.0.0.1:5", []string{"198.51.100.1, 192.0.2.7"}, "192.0.2.7:0"}, // the first entry is forged
		{"10.0.0.1:5", []string{"198.51.100.1", "192.0.2.7, 10.1.1.1"}, "192.0.2.7:0"},
		{"[::ffff:10.0.0.1]:5", []string{"::ffff:192.0.2.7"}, "192.0.2.7:0"},
		{"[2001:db8::1]:5", []string{"2001:470::9"}, "[2001:470::9]:0"},
		{"192.0.2.1:5", []string{"198.51.100.1"}, "192.0.2.1:5"}, // not a trusted proxy
		{"10.0.0.1:5", nil, "10.0.0.1:5"},
		{"10.0.0.1:5", []string{"198.51.100.1, nonsense"}, "10.0.0.1:5"},
		{"10.0.0.1:5", []string{"10.0.0.2"}, "10.0.0.1:5"},
	} {
		got := ""
		h := behindProxies(proxies, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.RemoteAddr }))
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.RemoteAddr = c.peer
		r.Header["X-Forwarded-For"] = c.forwarded
		h.ServeHTTP(httptest.NewRecorder(), r)
		require.Equal(t, c.want, got, c)
	}
}
