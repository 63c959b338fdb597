package e2e_test

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/proof/e2e"
	"example.com/checkout/deploy/standin/devstack"
	"example.com/checkout/storage/pgtemp"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/webhook"
)

// TestListen_CatchesUpOnWhatItMissed runs checkout listen as a merchant's developer does, with a key and nothing else
// of the service's configuration. It forwards what a delivery sends, signed with a secret of its own.
func TestListen_CatchesUpOnWhatItMissed(t *testing.T) {
	t.Parallel()
	m, home := e2e.NewMerchant(t, e2e.Shared), t.TempDir()
	address := fmt.Sprintf("127.0.0.1:%d", must.Get(pgtemp.FreePorts(1))(t)[0])
	program := must.Get(os.Executable())(t)
	// listen runs the command until it has printed a text and done reports true, and stops it with Ctrl-C.
	listen := func(text string, done func() bool) string {
		var said e2e.Words
		cmd := exec.CommandContext(t.Context(), program)
		cmd.Env = []string{
			devstack.CommandVariable + "=listen --forward-to http://" + address + "/webhook",
			"HOME=" + home, "XDG_CONFIG_HOME=" + home, "CHECKOUT_API_KEY=" + m.Key, "CHECKOUT_API_URL=" + m.Stack.APIURL(),
		}
		cmd.Stdout, cmd.Stderr = &said, &said
		require.NoError(t, cmd.Start())
		e2e.Await(t, text, 20*time.Second, func() bool { return strings.Contains(said.String(), text) && done() })
		require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
		require.NoError(t, cmd.Wait(), said.String())
		return said.String()
	}
	first := listen("events from now on", func() bool { return true })
	secret := regexp.MustCompile(`(?m)^  (whsec_[0-9a-f]{64})$`).FindStringSubmatch(first)[1]
	m.Sell(e2e.CardSucceeds)
	delivered := m.Arrivals(2, 20*time.Second)
	local := must.Get(devstack.StartReceiver(address, secret))(t)
	t.Cleanup(local.Close)
	arrived := func() bool {
		got, _ := local.Arrivals()
		return len(got) >= 2
	}
	require.Contains(t, listen("missed while listen did not run", arrived), "2 forwarded, 0 failed")

	forwarded, _ := local.Arrivals()
	for _, got := range forwarded {
		require.NoError(t, got.Signature)
		i := slices.IndexFunc(delivered, func(d devstack.Arrival) bool { return d.EventID == got.EventID })
		require.GreaterOrEqual(t, i, 0)
		require.Equal(t, string(delivered[i].Body), string(got.Body), "the bytes of the delivery")
		want := delivered[i].Header.Clone()
		for _, name := range []string{webhook.SignatureHeader, "X-Service-Delivery-Id", "Traceparent", "Connection"} {
			want.Del(name)
			got.Header.Del(name)
		}
		require.Equal(t, want, got.Header)
	}
}
