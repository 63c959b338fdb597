package bitcoin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"example.com/checkout/workflows/treasury"
)

// terms are TransferPlan.Terms. Amounts are in satoshis, sizes in virtual bytes.
type terms struct {
	Coins  []coin   `json:"coins"`           // in the order of the slot
	Extra  int      `json:"extra,omitempty"` // how many of them, the last ones, are combined at the treasury's cost
	Rate   rate     `json:"rate"`            // of the first version: what the payouts pay follows from it
	Burnt  []int64  `json:"burnt,omitempty"` // by output: what earlier transfers of its payout cost
	Change []change `json:"change"`
	Fee    int64    `json:"fee"` // of this version
	Budget int64    `json:"budget"`
	Height uint64   `json:"height"` // of the last block when this version was priced

	Version int32 `json:"version,omitempty"` // of the transaction; 0: unrestricted
}

// A change is an output to the wallet itself.
type change struct {
	Address string `json:"address"`
	Sats    int64  `json:"sats"`
}

// leastChange is the least amount of an output. Nodes refuse less.
const leastChange = 546

func (t terms) encode() (json.RawMessage, error) { return json.Marshal(t) }

// decodeTerms reads the terms of a plan.
func decodeTerms(raw json.RawMessage) (terms, error) {
	var t terms
	if err := json.Unmarshal(raw, &t); err != nil {
		return terms{}, fmt.Errorf("terms of the plan: %w", err)
	}
	if len(t.Coins) == 0 || t.Extra < 0 || t.Extra >= len(t.Coins) || t.Fee <= 0 ||
		t.Version != 0 && t.Version != restricted {
		return terms{}, errors.New("terms of the plan: they are not those of a Bitcoin transfer")
	}
	return t, nil
}

// outputWeights returns the weight of each output of a plan.
func (c *Chain) outputWeights(outputs []treasury.TransferOutput) ([]int64, error) {
	weights := make([]int64, len(outputs))
	for i, o := range outputs {
		script, err := c.script(o.Destination)
		if err != nil {
			return nil, err
		}
		weights[i] = outputWeight(script)
	}
	return weights, nil
}

func total(numbers []int64) (sum int64) {
	for _, n := range numbers {
		sum += n
	}
	return sum
}

// size returns the size of a version that has outputs of these weights beside the change.
func (t terms) size(weights []int64) int64 {
	return size(t.Coins, total(weights)+changeWeight*int64(len(t.Change)), len(weights)+len(t.Change))
}

// shared returns the fee that the payouts share: of a transfer with one change, without the coins that are only
// combined.
func (t terms) shared(weights []int64) sats {
	return t.Rate.of(size(t.Coins[:len(t.Coins)-t.Extra], total(weights)+changeWeight, len(weights)+1))
}

// shares shares a fee by the size of the outputs, to the last satoshi: the first ones pay what does not come out even.
func shares(fee sats, weights []int64) []sats {
	each, left := make([]sats, len(weights)), fee
	for i, weight := range weights {
		each[i] = fee * sats(weight) / sats(total(weights))
		left -= each[i]
	}
	for i := range int(left) {
		each[i]++
	}
	return each
}

// checkTerms compares the terms of a plan with the plan, without a request to a node.
func (c *Chain) checkTerms(plan treasury.TransferPlan, t terms) error {
	if len(plan.Slot) != len(t.Coins) {
		return errors.New("its slot is not its coins")
	}
	seen := map[string]bool{}
	for i, coin := range t.Coins {
		if plan.Slot[i] != coin.Unit || seen[coin.Unit] {
			return errors.New("its slot is not its coins")
		}
		seen[coin.Unit] = true
	}
	weights, err := c.outputWeights(plan.Outputs)
	if err != nil {
		return err
	}
	most := c.feeLimit(plan, t, t.size(weights)+largestChild)
	if sats(t.Fee) > most {
		return fmt.Errorf("%w: %s BTC, the limit is %s", treasury.ErrFeeTooHigh, sats(t.Fee).crypto(), most.crypto())
	}
	if plan.Cancels != (len(plan.Outputs) == 0) || len(plan.Outputs) > mostPayouts {
		return fmt.Errorf("it pays %d payouts", len(plan.Outputs))
	}
	if !plan.Cancels {
		if err := t.checkShares(plan.Outputs, weights); err != nil {
			return err
		}
	}
	return t.checkSum(plan.Outputs)
}

// feeLimit returns the highest fee of a version that pays for a size: its own, and that of the child that it replaces.
func (c *Chain) feeLimit(plan treasury.TransferPlan, t terms, size int64) sats {
	if plan.Cancels { // its budget is such a price
		return sats(t.Budget)
	}
	return min(sats(t.Budget), c.maxRate.of(size))
}

// checkShares compares what each payout pays with its share of the fee.
func (t terms) checkShares(outputs []treasury.TransferOutput, weights []int64) error {
	for i, share := range shares(t.shared(weights), weights) {
		if t.Burnt != nil {
			share += sats(t.Burnt[i])
		}
		if fee, err := satsOf(outputs[i].Fee); err != nil || fee != share {
			return fmt.Errorf("the fee of %s is %s, and its share is %s", outputs[i].PayoutID, outputs[i].Fee, share.crypto())
		}
	}
	return nil
}

// checkSum checks that every satoshi that comes in goes out.
func (t terms) checkSum(outputs []treasury.TransferOutput) error {
	left := sum(t.Coins) - sats(t.Fee)
	for _, o := range outputs {
		amount, err := satsOf(o.Amount)
		if err != nil || amount < leastChange {
			return fmt.Errorf("%q is too little for an output", o.Amount)
		}
		left -= amount
	}
	for _, change := range t.Change {
		if change.Sats < leastChange {
			return errors.New("a change is too small")
		}
		left -= sats(change.Sats)
	}
	if left != 0 {
		return fmt.Errorf("its outputs and its fee differ from its coins by %d satoshis", left)
	}
	return nil
}

// checkChange checks that the change goes to the wallet.
func (c *Chain) checkChange(ctx context.Context, t terms) error {
	addresses := make([]string, len(t.Change))
	for i, change := range t.Change {
		addresses[i] = change.Address
	}
	mine, err := c.ownAddresses(ctx, addresses...)
	if err != nil {
		return err
	}
	for _, address := range addresses {
		if !mine[address] {
			return fmt.Errorf("the change to %s would leave the wallet", address)
		}
	}
	return nil
}
