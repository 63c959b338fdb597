package service

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

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
