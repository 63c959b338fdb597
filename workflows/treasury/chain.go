// Package treasury holds the words of the treasury: chains, accounts, transfers and the rules of a signature. It does
// no I/O.
package treasury

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
)

// Chain is a blockchain with the treasury's account on it. No answer of a node decides anything: a node's errors have
// no fixed texts, and a refused transaction may already be mined. Look tells the state, and the state decides.
//
// Its implementations are ethereum.Chain and bitcoin.Chain. A worker.Chain is one of them whose node may not be ready
// yet. An activities.Chain has the payouts and the prices of a network, also of the sandbox's.
type Chain interface {
	// Account returns the treasury's account.
	Account() Account
	// Check reports why nothing must be sent to destination. "" means that a transfer of a payout
	// in c may be signed. It returns ErrNotTransferable.
	Check(ctx context.Context, c money.PayoutCurrency, destination string) (checkout.PayoutFailure, error)
	// Sanctioned reports whether the chain's own list of sanctioned addresses has destination. It is false
	// when no list is configured. It returns ErrNotTransferable when the list does not answer.
	Sanctioned(ctx context.Context, destination string) (bool, error)
	// Batch says how many payouts one transfer may pay.
	Batch() Batch
	// Plan prices one transfer of payouts, in the order of their ids. It changes nothing. taken are the units of the
	// account's live transfers: the plan has none of them. It returns ErrFeeTooHigh when the fee is above
	// its limit, and ErrTooSmall when the fee leaves nothing or too little of the payout. It returns
	// ErrFloatTooLow and ErrNotTransferable too. All four may be different later. An error about some of several
	// payouts is a PayoutErrors: a plan of the others may succeed.
	Plan(ctx context.Context, payouts []TransferRequest, taken Slot) (TransferPlan, error)
	// Bump prices the next version of a transfer that the network does not take: the same slot and outputs, and a
	// higher fee for the network. It returns ErrFeeTooHigh, and ErrNotStuck.
	Bump(ctx context.Context, last TransferVersion) (TransferPlan, error)
	// Cancel prices a version that pays nobody: it uses up the slot of a transfer that the network does
	// not take. It returns ErrFeeTooHigh.
	Cancel(ctx context.Context, last TransferVersion) (TransferPlan, error)
	// Sign signs the plan, which has a slot, before ctx ends. It sends nothing. The same input gives the same bytes. It
	// compares every field of what the signer returned with the plan.
	Sign(ctx context.Context, plan TransferPlan) (TransferVersion, error)
	// Send gives a signed version to the network. Its error decides nothing.
	Send(ctx context.Context, v TransferVersion) error
	// Look returns the state of a transfer: of its slot and all its versions together.
	Look(ctx context.Context, versions []TransferVersion) (TransferSnapshot, error)
	// Snapshot returns the account's state on the chain.
	Snapshot(ctx context.Context) (AccountSnapshot, error)
	// Outflows returns the transfers out of the account that the chain has in the blocks from first to last,
	// oldest first, and those of one transaction together. It looks at no block that is not final.
	Outflows(ctx context.Context, first, last uint64) (Outflows, error)
	// VersionOf returns the transaction that made the outflows, all of them, as the version that Sign made: an output
	// for each outflow, in their order, without payouts. The fee of an output is its highest share of what the
	// transaction may cost, in the chain's own currency. It returns ErrNotSigned when Sign makes no such transaction.
	VersionOf(ctx context.Context, all []Outflow) (TransferVersion, error)
}

// Slot is what a transaction of the treasury's account uses up, and no other transaction can use after it: a nonce on
// Ethereum, coins on Bitcoin. All versions of a transfer have the same slot, so the chain accepts at most one of them.
// Two transfers have no unit in common. What a unit means is known to its chain alone.
type Slot []string

// NumberSlot returns the slot of a chain that takes the transactions of an account in the order of their numbers.
func NumberSlot(n uint64) Slot { return Slot{strconv.FormatUint(n, 10)} }

// Number returns the slot's number. ordered is false on a chain that takes the account's transactions in any order.
// Otherwise a transfer waits for those of lower numbers.
func (s Slot) Number() (n uint64, ordered bool) {
	if len(s) != 1 {
		return 0, false
	}
	n, err := strconv.ParseUint(s[0], 10, 63)
	return n, err == nil
}

// Shares reports whether both slots have a unit in common.
func (s Slot) Shares(with Slot) bool {
	return slices.ContainsFunc(s, func(unit string) bool { return slices.Contains(with, unit) })
}

// Name names the slot in a sentence.
func (s Slot) Name() string { return "slot " + strings.Join(s, ", ") }

// Batch says how a chain combines payouts.
type Batch struct {
	Most int           // payouts of one transfer
	Wait time.Duration // how long a payout waits for others; 0 when Most is 1
}

// PayoutErrors says by payout id why some of several payouts have no place in a transfer.
type PayoutErrors map[string]error

func (e PayoutErrors) Error() string {
	var all []string
	for _, id := range slices.Sorted(maps.Keys(e)) {
		all = append(all, id+": "+e[id].Error())
	}
	return strings.Join(all, "; ")
}

// ErrNotStuck: the network may still take the last version, so Bump prices no other one.
var ErrNotStuck = errors.New("the network may still take the last version")

// ErrNotSigned: Sign makes no such transaction.
var ErrNotSigned = errors.New("this service signs no such transaction")

// Errors of Chain. A payout waits for each.
var (
	ErrFeeTooHigh error = checkout.HeldError{
		Why: checkout.HoldFee, Cause: errors.New("the network's fee is above the limit"),
	}
	ErrTooSmall error = checkout.HeldError{
		Why: checkout.HoldFee, Cause: errors.New("the payout is too small for the network's fee"),
	}
	// ErrFloatTooLow: the treasury's account has too little of the currency, or of what fees are paid in.
	ErrFloatTooLow error = checkout.HeldError{
		Why: checkout.HoldFloat, Cause: errors.New("the treasury's account has too little"),
	}
	// ErrNotTransferable: the currency cannot be sent in full at present, such as a token that is paused.
	ErrNotTransferable error = checkout.HeldError{
		Why: checkout.HoldChain, Cause: errors.New("the currency cannot be transferred now"),
	}
)

// Account is an account from which payouts are sent.
type Account struct {
	Network string // as money.PayoutCurrency.Network: "ethereum"
	ChainID string // CAIP-2, such as "eip155:1"
	Address string
}

// TransferPlan is a priced transfer, ready to be signed once it has a slot.
type TransferPlan struct {
	Slot    Slot             // nil in a plan of Chain.Plan: the account's next number
	Outputs []TransferOutput `db:"-"` // in the order of their payouts' ids, all in one currency; none when it cancels
	Fee     money.Crypto     // the sum of the outputs' fees; none when it cancels
	MaxCost money.Crypto     // in the chain's own currency: the fee at most
	Terms   json.RawMessage  // the chain's own fields: gas, tip, cap, and so on
	Cancels bool             // it pays nobody: see Chain.Cancel
}

// Currency returns the currency of the outputs, "" when there are none.
func (p TransferPlan) Currency() money.PayoutCurrency {
	if len(p.Outputs) == 0 {
		return ""
	}
	return p.Outputs[0].Amount.Currency()
}

// TransferOutput is the part of a transfer that pays one payout.
type TransferOutput struct {
	PayoutID    string
	Destination string
	Amount      money.Crypto // what the destination receives
	Fee         money.Crypto // what the merchant pays for the network, in the currency of Amount
}

// Is reports whether both are the same output.
func (o TransferOutput) Is(other TransferOutput) bool {
	return o.PayoutID == other.PayoutID && o.Destination == other.Destination && o.Amount.Is(other.Amount) &&
		o.Fee.Is(other.Fee)
}

// TransferVersion is one signed transaction of a transfer.
type TransferVersion struct {
	TransferPlan

	TxHash string
	Raw    []byte // the signed bytes. They move money: never log them
}

// TransferState is what the chain knows of a transfer.
type TransferState string

// States of a transfer on its chain. The last four are final: they hold at the depth at which the
// chain never goes back.
const (
	TransferStateUnknown   TransferState = "unknown"   // no node knows a version: send the bytes again
	TransferStatePending   TransferState = "pending"   // waits in the pool
	TransferStateMined     TransferState = "mined"     // in a block that may still disappear
	TransferStateConfirmed TransferState = "confirmed" // paid
	TransferStateReverted  TransferState = "reverted"  // in a block, but the destination received nothing
	TransferStateDead      TransferState = "dead"      // another transaction used the slot: none of them can be mined
	TransferStateCanceled  TransferState = "canceled"  // a version that cancels is in a block: nobody was paid
)

// Final reports whether the state holds for ever.
func (s TransferState) Final() bool {
	switch s {
	case TransferStateConfirmed, TransferStateReverted, TransferStateDead, TransferStateCanceled:
		return true
	}
	return false
}

// TransferSnapshot is the state of a transfer on its chain.
type TransferSnapshot struct {
	State     TransferState
	TxHash    string // of the version in the block; "" unless mined, confirmed, reverted or canceled
	Height    uint64 // of that block; of the block that used the slot when dead
	BlockHash string
	Depth     uint64       // blocks on top of it
	Cost      money.Crypto // in the chain's own currency: the fee that was paid; none unless in a block
	Received  money.Crypto // what the chain says the destination received; none unless confirmed
}

// AccountSnapshot is the state of the treasury's account on its chain.
type AccountSnapshot struct {
	Next     uint64      // the lowest number that a new transfer can have; 0 on a chain without an order
	Using    Slot        // the units that transactions use which are not final, mined or in the pool
	Balances money.Purse // of the latest block
	Height   uint64

	// Of the last final block.
	Used          func(Slot) bool // whether the slot is used up, by whatever transaction
	FinalBalances money.Purse
	FinalHeight   uint64
}

// Outflow is a transfer out of the treasury's account that the chain has, or another use of its key. What
// another account sent is one only when it moved something: everybody can transfer nothing.
type Outflow struct {
	TxHash      string // "" when a slot was used up without a transaction of the account
	Output      string // its number in the transaction, where one transaction pays several; "" elsewhere
	Slot        Slot   // nil when another account sent the transaction
	Destination string
	Amount      money.Crypto // 0 for a use of the key that moved nothing
	Cost        money.Crypto // in the chain's own currency: the fee that the account paid; none when it paid none
	Height      uint64
}

// Moved reports whether the outflow took an amount from the account, beside its cost.
func (o Outflow) Moved() bool { return o.Amount.Sign() != 0 }

// Payment names the outflow alone: by the hash of its transaction, such as "4f…", with the output where it has one,
// such as "4f…:2". It is "" without a transaction.
func (o Outflow) Payment() string {
	if o.Output == "" {
		return o.TxHash
	}
	return o.TxHash + ":" + o.Output
}

// Name names the outflow's transaction in a sentence.
func (o Outflow) Name() string {
	if o.TxHash == "" {
		return "a use of " + o.Slot.Name() + " without a transaction"
	}
	return "the transaction " + o.TxHash
}

// Outflows are the transfers out of the account in a range of final blocks.
type Outflows struct {
	All  []Outflow
	Next uint64 // the first block of the next range
}
