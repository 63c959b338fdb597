package e2e_test

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/proof/e2e"
)

// TestSlowClients_AreCutOffAndHurtNobody: 50 clients that never end their headers.
func TestSlowClients_AreCutOffAndHurtNobody(t *testing.T) {
	t.Parallel()
	m := e2e.NewMerchant(t, e2e.Shared)
	var group sync.WaitGroup
	for range 50 {
		conn, err := net.Dial("tcp", e2e.Shared.APIURL()[len("http://"):])
		require.NoError(t, err)
		defer func() { _ = conn.Close() }() // all that was to be read has been
		group.Go(func() {
			_, _ = io.WriteString(conn, "POST /v1/checkout HTTP/1.1\r\nHost: x\r\nX-Slow: ") // else the read says it
			_ = conn.SetReadDeadline(time.Now().Add(20 * time.Second))
			answer, err := io.ReadAll(conn)
			if err != nil {
				t.Errorf("not cut off: %v after %q", err, answer)
			}
		})
	}
	for range 10 {
		m.Create(e2e.Terms)
	}
	group.Wait()
}
