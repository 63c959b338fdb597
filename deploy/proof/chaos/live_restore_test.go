package main

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/proof/chaos/invariant"
	"example.com/checkout/storage"
	"example.com/checkout/storage/pgtemp"
)

func TestDecide_ADecisionForEachTransactionThatIsNotClear(t *testing.T) {
	t.Parallel()
	c := &chaos{rig: &rig{databaseURL: pgtemp.ForTest(t, storage.Migrate)}, out: io.Discard}
	c.world.siege.Known = map[string]invariant.LostPayout{
		"po_1": {ID: "po_1", TransactionID: "txn_gone", Hashes: []string{"0x1", "0x2"}},
	}
	for _, n := range []struct {
		said   string
		losses []string
		again  bool
	}{
		{"from block 1 up to 9: 0 unexplained, 0 clear, 0 written", nil, false},
		{"from block 1 up to 9: 0 unexplained, 0 clear, 0 written; 2 more are not final yet: run this again", nil, true},
		{"0x2  4  written", nil, false},
		{"0x2  4  no payout fits", []string{"--loss", "0x2"}, false},
	} {
		chosen, losses, again := c.decide(t.Context(), n.said+"\n")
		require.Empty(t, chosen)
		require.Equal(t, n.losses, losses, n.said)
		require.Equal(t, n.again, again, n.said)
	}
}
