package devstack_test

import (
	"bufio"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/standin/devstack"
)

func TestFree_GivesDifferentPortsBelowTheEphemeralRange(t *testing.T) {
	t.Parallel()
	ports, err := devstack.Free(20)
	require.NoError(t, err)
	require.Len(t, ports, 20)
	slices.Sort(ports)
	require.Len(t, slices.Compact(ports), 20)
	require.Less(t, ports[19], 32768)
}

// TestFree_GivesNoPortToTwoProcesses: go test runs packages side by side, and they bind their ports
// later.
func TestFree_GivesNoPortToTwoProcesses(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 8 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), role+"=ports")
		in, err := cmd.StdinPipe()
		require.NoError(t, err)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		t.Cleanup(func() {
			require.NoError(t, in.Close())
			require.NoError(t, cmd.Wait())
		})
		line, err := bufio.NewReader(out).ReadString('\n')
		require.NoError(t, err)
		ports := strings.Fields(strings.Trim(line, "[]\n"))
		require.Len(t, ports, 500)
		for _, port := range ports {
			require.False(t, seen[port], "port %s was given twice", port)
			seen[port] = true
		}
	}
}

// TestStartReceiver_OnAPortThatWasJustClosed: a child process has a copy of each open listener from its fork until its exec.
func TestStartReceiver_OnAPortThatWasJustClosed(t *testing.T) {
	t.Parallel()
	ports, err := devstack.Free(1)
	require.NoError(t, err)
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(ports[0]))
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
		receiver, err := devstack.StartReceiver(address, "whsec_test")
		require.NoError(t, err)
		receiver.Close()
	}
	close(ended)
	starts.Wait()
}

func TestCheckFree_NamesTheAddressAndTheFlag(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := listener.Addr().String()
	require.EqualError(t, devstack.CheckFree(addr, "-api-port"),
		addr+" is taken by another program: end it, or choose another port with -api-port")
	require.NoError(t, listener.Close())
	require.NoError(t, devstack.CheckFree(addr, "-api-port"))
}
