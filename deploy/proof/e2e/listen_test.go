package e2e_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
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

// TestListen_CatchesUpOnWhatItMissed runs checkout listen as a merchant's
// developer does, with a key and nothing else of the service's configuration.
func TestListen_CatchesUpOnWhatItMissed(t *testing.T) {
	t.Parallel()
	m := e2e.NewMerchant(t, e2e.Shared)
	dev := newDeveloper(t, m)
	pay := func() { m.MustPay(m.Create(e2e.Terms), e2e.CardSucceeds) }

	// It forwards what the registered endpoint gets, signed with its own secret.
	running := dev.listen()
	dev.await(running, "events from now on")
	pay()
	got := dev.arrivals(2, 20*time.Second)
	delivered := m.Arrivals(2, 20*time.Second)
	secret := regexp.MustCompile(`(?m)^  (whsec_[0-9a-f]{64})$`).FindStringSubmatch(running.said.String())[1]
	bodies := eventBodies(t, m)
	for _, a := range got {
		require.Equal(t, bodies[a.id], a.body, "the bytes of event.body")
		require.NoError(t, webhook.Verify(secret, a.header.Get(webhook.SignatureHeader), []byte(a.body), time.Now()))
		i := slices.IndexFunc(delivered, func(d devstack.Arrival) bool { return d.EventID == a.id })
		require.GreaterOrEqual(t, i, 0)
		require.Equal(t, string(delivered[i].Body), a.body, "the bytes of the delivery")
		want := delivered[i].Header.Clone()
		for _, name := range []string{webhook.SignatureHeader, "X-Service-Delivery-Id", "Traceparent", "Connection"} {
			want.Del(name)
			if name != webhook.SignatureHeader {
				require.Empty(t, a.header.Get(name))
			}
		}
		a.header.Del(webhook.SignatureHeader)
		require.Equal(t, want, a.header)
	}
	dev.stop(running)
	require.Contains(t, running.said.String(), "2 forwarded, 0 failed")

	pay()
	pay()
	pay()
	e2e.Await(t, "eight events", 20*time.Second, func() bool { return len(eventBodies(t, m)) == 8 })
	running = dev.listen()
	dev.await(running, "missed while listen did not run")
	got = dev.arrivals(8, 20*time.Second)
	dev.stop(running)
	require.Contains(t, running.said.String(), "6 forwarded, 0 failed")
	bodies = eventBodies(t, m)
	for _, a := range got {
		require.Equal(t, bodies[a.id], a.body)
	}
	require.Equal(t, inFeed(t, m), idsOf(got), "in the order of the feed")
	t.Log("\n" + running.said.String())

	running = dev.listen("--since", "10m")
	require.Equal(t, inFeed(t, m), idsOf(dev.arrivals(16, 20*time.Second))[8:], "all again")
	dev.stop(running)
}

// inFeed returns the ids of the merchant's events in the order in which their transactions stored them.
func inFeed(t *testing.T, m *e2e.Merchant) []string {
	t.Helper()
	return e2e.Query[[]string](t, m.Stack, `SELECT array_agg(id ORDER BY commit_xid, id) FROM event WHERE merchant_id = $1`, m.ID)
}

func eventBodies(t *testing.T, m *e2e.Merchant) map[string]string {
	t.Helper()
	return e2e.Query[map[string]string](t, m.Stack, `
		SELECT jsonb_object_agg(id, convert_from(body, 'UTF8')) FROM event WHERE merchant_id = $1`, m.ID)
}

// arrived is a request that came to a developer's server.
type arrived struct {
	id     string
	header http.Header
	body   string
}

func idsOf(all []arrived) []string {
	ids := make([]string, len(all))
	for i, a := range all {
		ids[i] = a.id
	}
	return ids
}

// developer has a server on this computer and a home.
type developer struct {
	t      *testing.T
	m      *e2e.Merchant
	home   string
	server *httptest.Server

	mu  sync.Mutex
	got []arrived
}

func newDeveloper(t *testing.T, m *e2e.Merchant) *developer {
	t.Helper()
	d := &developer{t: t, m: m, home: t.TempDir()}
	d.server = httptest.NewServer(d)
	t.Cleanup(d.server.Close)
	return d
}

func (d *developer) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body) // compared later
	d.mu.Lock()
	defer d.mu.Unlock()
	d.got = append(d.got, arrived{r.Header.Get("X-Service-Event-Id"), r.Header.Clone(), string(body)})
}

func (d *developer) arrivals(n int, within time.Duration) (all []arrived) {
	d.t.Helper()
	e2e.Await(d.t, strconv.Itoa(n)+" events", within, func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		all = slices.Clone(d.got)
		return len(all) >= n
	})
	return all
}

// listening is a running checkout listen.
type listening struct {
	cmd  *exec.Cmd
	said e2e.Words
}

// listen starts checkout listen with an environment of its own.
func (d *developer) listen(flags ...string) *listening {
	d.t.Helper()
	program, err := os.Executable()
	require.NoError(d.t, err)
	l := &listening{cmd: exec.CommandContext(d.t.Context(), program)}
	l.cmd.Env = []string{
		devstack.CommandVariable + "=listen --forward-to " + d.server.URL + "/webhook " + strings.Join(flags, " "),
		"HOME=" + d.home, "XDG_CONFIG_HOME=" + d.home, "CHECKOUT_API_KEY=" + d.m.Key, "CHECKOUT_API_URL=" + d.m.Stack.APIURL(),
	}
	l.cmd.Stdout, l.cmd.Stderr = &l.said, &l.said
	require.NoError(d.t, l.cmd.Start())
	return l
}

func (d *developer) await(l *listening, text string) {
	d.t.Helper()
	e2e.Await(d.t, text, 20*time.Second, func() bool { return strings.Contains(l.said.String(), text) })
}

// stop is Ctrl-C.
func (d *developer) stop(l *listening) {
	d.t.Helper()
	require.NoError(d.t, l.cmd.Process.Signal(syscall.SIGINT))
	require.NoError(d.t, l.cmd.Wait(), l.said.String())
}
