package pgtemp_test

import (
	"bufio"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

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
			require.Less(t, number(t, port), 32768)
			seen[port] = true
		}
	}
}

func number(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	require.NoError(t, err)
	return n
}
