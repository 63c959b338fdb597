package devstack

import (
	"net"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/storage/pgtemp"
)

func TestCheckFree_NamesTheAddressAndTheFlag(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	port := listener.Addr().(*net.TCPAddr).Port
	require.EqualError(t, checkFree(port, "-api-port"), listener.Addr().String()+
		": port is taken: end the program that has it, or choose another port with -api-port")
	require.NoError(t, listener.Close())
	require.Eventually(t, func() bool { // a child process of another test has a copy until its exec
		return checkFree(port, "-api-port") == nil
	}, 10*time.Second, time.Millisecond)
}

// TestStartReceiver_OnAPortThatWasJustClosed: a child process has a copy of each open listener from its fork until its
// exec.
func TestStartReceiver_OnAPortThatWasJustClosed(t *testing.T) {
	t.Parallel()
	ports, err := pgtemp.FreePorts(1)
	require.NoError(t, err)
	address := loopback(ports[0])
	ended := make(chan struct{})
	var starts sync.WaitGroup
	starts.Go(func() {
		for {
			select {
			case <-ended:
				return
			default:
				_ = exec.Command("true").Run()
			}
		}
	})
	for range 400 {
		receiver, err := StartReceiver(address, "whsec_test")
		require.NoError(t, err)
		receiver.Close()
	}
	close(ended)
	starts.Wait()
}
