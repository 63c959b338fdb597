package bitcoin

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/btcsuite/btcd/chaincfg/chainhash"
	"github.com/btcsuite/btcd/txscript"
	"github.com/btcsuite/btcd/wire"

	"example.com/checkout/workflows/treasury"
)

// A coin is an output of a transaction that the wallet can spend.
type coin struct {
	Unit   string `json:"coin"` // of a slot: the transaction's id and the output's number, "…:0"
	Sats   int64  `json:"sats"`
	Weight int64  `json:"weight"` // of the input that spends it, signed
}

func unit(txid string, vout uint32) string { return txid + ":" + strconv.FormatUint(uint64(vout), 10) }

// outpoint reads the unit of a slot.
func outpoint(unit string) (wire.OutPoint, error) {
	txid, number, _ := strings.Cut(unit, ":")
	hash, err := chainhash.NewHashFromStr(txid)
	vout, err2 := strconv.ParseUint(number, 10, 32)
	if err != nil || err2 != nil || len(txid) != 2*chainhash.HashSize {
		return wire.OutPoint{}, fmt.Errorf("%.80q is no coin", unit)
	}
	return wire.OutPoint{Hash: *hash, Index: uint32(vout)}, nil
}

// An unspent is a coin as listunspent has it.
type unspent struct {
	TxID          string `json:"txid"`
	Vout          uint32 `json:"vout"`
	Script        string `json:"scriptPubKey"`
	Amount        sats   `json:"amount"`
	Confirmations int64  `json:"confirmations"`
	Solvable      bool   `json:"solvable"`
}

func (u unspent) unit() string { return unit(u.TxID, u.Vout) }

// coins returns the final coins that no transfer has taken, the largest first. It leaves out coins of old kinds: a
// third party can change the id of a transaction that spends them.
func (c *Chain) coins(ctx context.Context, taken treasury.Slot) ([]coin, error) {
	var all []unspent
	if err := c.node.Call(ctx, &all, "listunspent", c.confirmations, 9_999_999, []string{}, true); err != nil {
		return nil, err
	}
	isTaken := map[string]bool{}
	for _, unit := range taken {
		isTaken[unit] = true
	}
	var free []coin
	for _, u := range all {
		weight, ok := inputWeight(u.Script)
		if ok && u.Solvable && !isTaken[u.unit()] && u.Confirmations >= int64(c.confirmations) { //nolint:gosec // G115
			free = append(free, coin{u.unit(), int64(u.Amount), weight})
		}
	}
	slices.SortFunc(free, func(a, b coin) int { return cmp.Or(cmp.Compare(b.Sats, a.Sats), cmp.Compare(a.Unit, b.Unit)) })
	return free, nil
}

// inputWeight returns the weight of the input that spends a coin of the script; ok is false for an old kind.
func inputWeight(script string) (weight int64, ok bool) {
	const (
		outside = 4 * (32 + 4 + 1 + 4) // the coin, an empty script and the sequence
		key     = 1 + 1 + 72 + 1 + 33  // a signature and a public key, each with its length
		taproot = 1 + 1 + 64           // a signature
	)
	content, err := hex.DecodeString(script)
	switch {
	case err != nil:
		return 0, false
	case txscript.IsPayToWitnessPubKeyHash(content):
		return outside + key, true
	case txscript.IsPayToTaproot(content):
		return outside + taproot, true
	}
	return 0, false
}

// sum adds up coins.
func sum(coins []coin) (total sats) {
	for _, c := range coins {
		total += sats(c.Sats)
	}
	return total
}

// mostInputs is how many coins a transfer may have: with as many outputs as it may have too, and two changes, it is no
// larger than largestRestricted. mostExtra is how many of them may be small ones that it does not need.
const (
	mostInputs = 80
	mostExtra  = 20
)

// choose returns coins of at least an amount: the smallest one that is enough, else the largest ones. ok is false when
// there is not enough.
func choose(coins []coin, amount sats) (chosen, left []coin, ok bool) {
	for i, c := range slices.Backward(coins) {
		if sats(c.Sats) >= amount {
			return []coin{c}, slices.Delete(slices.Clone(coins), i, i+1), true
		}
	}
	for n := 2; n <= min(len(coins), mostInputs); n++ {
		if sum(coins[:n]) >= amount {
			return slices.Clone(coins[:n]), coins[n:], true
		}
	}
	return nil, coins, false
}
