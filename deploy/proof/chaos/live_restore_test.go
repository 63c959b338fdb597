package main

import (
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/proof/chaos/invariant"
	"example.com/checkout/storage"
	"example.com/checkout/storage/pgtemp"
	"example.com/checkout/workflows/money"
)

func TestReadRecovery_ADecisionForEachTransactionThatIsNotClear(t *testing.T) {
	t.Parallel()
	batch := strings.Repeat("ab", 32)
	c := &chaos{rig: &rig{databaseURL: pgtemp.ForTest(t, storage.Migrate)}, out: io.Discard}
	c.world.siege.Known = map[string]invariant.LostPayout{
		"po_1": {ID: "po_1", TransactionID: "txn_gone", Hashes: []string{"0x1", "0x2"}},
		"po_2": {ID: "po_2", TransactionID: "txn_gone", Hashes: []string{batch}, Currency: money.BTC, Amount: "0.002",
			Destination: "bcrt1q"},
	}
	loss := []string{"--loss", batch + ":1"}
	for _, n := range []struct {
		said           string
		losses, chosen []string
		again          bool
	}{
		{batch + ":1  aa:0  0.002 BTC  bcrt1q  no payout fits", loss, loss, true},
		{batch + ":1  aa:0  0.002 BTC  bcrt1q  it may be no loss: it may have paid po_3", loss, loss, true},
		{batch + ":1  aa:0  0.002 BTC  bcrt1q  it is no payment of this service", loss, loss, false},
		{batch + ":1  aa:0  0.002 BTC  bcrt1q  it is a loss: thaw with --loss", loss, loss, false},
		{"from block 1 up to 9: 0 unexplained, 0 clear, 0 written", nil, nil, false},
		{"from block 1 up to 9: 0 unexplained, 0 clear, 0 written; 2 more are not final yet: run this again", nil, nil, true},
		{"0x2  4  written", nil, nil, false},
		{"0x2  4  no payout fits", []string{"--loss", "0x2"}, nil, false},
	} {
		chosen, losses, again := c.readRecovery(t.Context(), n.said+"\n")
		require.Equal(t, n.chosen, chosen, n.said)
		require.Equal(t, n.losses, losses, n.said)
		require.Equal(t, n.again, again, n.said)
	}
}
