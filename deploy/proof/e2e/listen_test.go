package e2e_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/proof/e2e"
	"example.com/checkout/deploy/standin/devstack"
	"example.com/checkout/workflows/webhook"
)

// TestListen_CatchesUpOnWhatItMissed runs checkout listen as a merchant's developer does, with a key and nothing else of the
// service's configuration. It forwards what a delivery sends, signed with a secret of its own.
func TestListen_CatchesUpOnWhatItMissed(t *testing.T) {
	t.Parallel()
	m, home := e2e.NewMerchant(t, e2e.Shared), t.TempDir()
	var mu sync.Mutex
	var got []http.Header
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // compared later
		mu.Lock()
		defer mu.Unlock()
		r.Header.Set("body", string(body))
		got = append(got, r.Header.Clone())
	}))
	t.Cleanup(server.Close)
	program, err := os.Executable()
	require.NoError(t, err)
	// listen runs the command until it has printed a text and n requests have arrived in all, and stops it with Ctrl-C.
	listen := func(text string, n int) string {
		var said e2e.Words
		cmd := exec.CommandContext(t.Context(), program)
		cmd.Env = []string{
			devstack.CommandVariable + "=listen --forward-to " + server.URL + "/webhook",
			"HOME=" + home, "XDG_CONFIG_HOME=" + home, "CHECKOUT_API_KEY=" + m.Key, "CHECKOUT_API_URL=" + m.Stack.APIURL(),
		}
		cmd.Stdout, cmd.Stderr = &said, &said
		require.NoError(t, cmd.Start())
		e2e.Await(t, text, 20*time.Second, func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(got) >= n && strings.Contains(said.String(), text)
		})
		require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
		require.NoError(t, cmd.Wait(), said.String())
		return said.String()
	}
	secret := regexp.MustCompile(`(?m)^  (whsec_[0-9a-f]{64})$`).FindStringSubmatch(listen("events from now on", 0))[1]
	m.MustPay(m.Create(e2e.Terms), e2e.CardSucceeds)
	delivered := m.Arrivals(2, 20*time.Second)
	require.Contains(t, listen("missed while listen did not run", 2), "2 forwarded, 0 failed")

	for _, header := range got {
		i := slices.IndexFunc(delivered, func(d devstack.Arrival) bool { return d.EventID == header.Get("X-Service-Event-Id") })
		require.GreaterOrEqual(t, i, 0)
		require.Equal(t, string(delivered[i].Body), header.Get("body"), "the bytes of the delivery")
		require.NoError(t, webhook.Verify(secret, header.Get(webhook.SignatureHeader), delivered[i].Body, time.Now()))
		want := delivered[i].Header.Clone()
		for _, name := range []string{webhook.SignatureHeader, "X-Service-Delivery-Id", "Traceparent", "Connection"} {
			want.Del(name)
		}
		header.Del(webhook.SignatureHeader)
		header.Del("body")
		require.Equal(t, want, header)
	}
}
