package ethereum

import (
	"errors"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"

	"example.com/checkout/activities/jsonrpc"
	"example.com/checkout/deploy/standin/chains"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/treasury"
)

func TestSanctioned_AsksTheOracle(t *testing.T) {
	r := newRig(t, chains.Options{})
	listed, clean := r.payee(), r.payee()
	without := r.open()
	oracle := r.deploy("SanctionsOracle")
	r.invoke("SanctionsOracle", oracle, "set", common.HexToAddress(listed), true)
	p := proxyTo(t, r.anvil.URL)
	c := r.open(func(o *Options) { o.SanctionsOracle, o.RPCURLs = oracle.Hex(), []string{p.URL} })
	asks := func(c *Chain, destination string) bool {
		return must.Get(c.Sanctioned(t.Context(), destination))(t)
	}
	require.True(t, asks(c, listed))
	require.False(t, asks(c, clean))
	require.False(t, asks(c, "0x1"), "Check refuses it")
	require.False(t, asks(without, listed), "no oracle is configured")
	refused := must.Get(c.Check(t.Context(), money.USDC, oracle.Hex()))(t)
	require.Equal(t, checkout.PayoutInvalidAddress, refused, "it keeps what it gets")

	for name, answer := range map[string]any{
		"an error": errors.New("busy"), "nothing": "0x", "a number": "0x" + common.Bytes2Hex(common.LeftPadBytes([]byte{2}, 32)),
		"no word": "0x01",
	} {
		p.tell(on("eth_call", answer))
		require.ErrorIs(t, must.Err(c.Sanctioned(t.Context(), clean)), treasury.ErrNotTransferable, name)
	}
	p.tell(on("eth_syncing", true))
	require.ErrorIs(t, must.Err(c.Sanctioned(t.Context(), clean)), jsonrpc.ErrNotReady, "an old answer does not count")
	p.tell(always(nil))
	r.invoke("SanctionsOracle", oracle, "silence", true)
	require.ErrorIs(t, must.Err(c.Sanctioned(t.Context(), listed)), treasury.ErrNotTransferable)
}

func TestOpen_RefusesAnAddressWithoutAnOracle(t *testing.T) {
	r := newRig(t, chains.Options{})
	for _, address := range []string{"0x1", r.payee(), r.market.USDC.Hex()} {
		o := r.options
		o.SanctionsOracle = address
		_, err := Open(t.Context(), o)
		require.ErrorContains(t, err, "sanctions oracle", address)
		require.NotErrorIs(t, err, jsonrpc.ErrNotReady, "a repeat does not help")
	}
}
