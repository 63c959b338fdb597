package pgtemp_test

import (
	"bufio"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/storage/pgtemp"
)

func TestFreePorts_GivesDifferentPortsBelow32768(t *testing.T) {
	t.Parallel()
	ports, err := pgtemp.FreePorts(200)
	require.NoError(t, err)
	require.Len(t, ports, 200)
	slices.Sort(ports)
	require.Len(t, slices.Compact(ports), 200)
	require.Less(t, ports[199], 32768)
}

// TestFreePorts_GivesNoPortToTwoProcesses: go test runs packages side by side, and they bind their ports later.
func TestFreePorts_GivesNoPortToTwoProcesses(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 8 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), countOfPorts+"=500")
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

func TestCheckFree_NamesThePort(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	port := listener.Addr().(*net.TCPAddr).Port
	require.EqualError(t, pgtemp.CheckFree(port), listener.Addr().String()+": port is taken")
	require.NoError(t, listener.Close())
	require.Eventually(t, func() bool { // a child process of another test has a copy until its exec
		return pgtemp.CheckFree(port) == nil
	}, 10*time.Second, time.Millisecond)
}
