package devstack_test

import (
	"net"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/devstack"
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
