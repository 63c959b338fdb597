package checkout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
)

// Chain is a blockchain with the treasury's account on it. No answer of a node decides anything: a
// node's errors have no fixed texts, and a refused transaction may already be mined. Look tells the
// state, and the state decides.
type Chain interface {
	// Account returns the treasury's account.
	Account() TreasuryAccount
	// Check reports why nothing must be sent to destination. "" means that a transfer of a payout
	// in c may be signed. It returns ErrNotTransferable.
	Check(ctx context.Context, c PayoutCurrency, destination string) (PayoutFailure, error)
	// Sanctioned reports whether the chain's own list of sanctioned addresses has destination. It is false
	// when no list is configured. It returns ErrNotTransferable when the list does not answer.
	Sanctioned(ctx context.Context, destination string) (bool, error)
	// Plan prices a transfer. It changes nothing. It returns ErrFeeTooHigh when the fee is above
	// its limit, and ErrTooSmall when the fee leaves nothing or too little of the payout. It returns
	// ErrFloatTooLow and ErrNotTransferable too. All four may be different later.
	Plan(ctx context.Context, req TransferRequest) (TransferPlan, error)
	// Bump prices the next version of a transfer that the network does not take: the same nonce,
	// destination and amount, and a higher fee. It returns ErrFeeTooHigh.
	Bump(ctx context.Context, last TransferVersion) (TransferPlan, error)
	// Cancel prices a version that pays nobody: it uses up the nonce of a transfer that the network does
	// not take. It returns ErrFeeTooHigh.
	Cancel(ctx context.Context, last TransferVersion) (TransferPlan, error)
	// Sign signs the plan with the nonce. It sends nothing. The same input gives the same bytes. It
	// compares every field of what the signer returned with the plan.
	Sign(ctx context.Context, plan TransferPlan, nonce uint64) (TransferVersion, error)
	// Send gives a signed version to the network. Its error decides nothing.
	Send(ctx context.Context, v TransferVersion) error
	// Look returns the state of a transfer: of the nonce and all its versions together.
	Look(ctx context.Context, nonce uint64, versions []TransferVersion) (TransferSnapshot, error)
	// Snapshot returns the account's state on the chain.
	Snapshot(ctx context.Context) (AccountSnapshot, error)
	// Outflows returns the transfers out of the account that the chain has in the blocks from first to last,
	// oldest first. It looks at no block that is not final.
	Outflows(ctx context.Context, first, last uint64) (Outflows, error)
	// Signed returns the transaction of an outflow as the version that Sign made, without its Fee. It
	// returns ErrNotSigned when Sign makes no such transaction.
	Signed(ctx context.Context, o Outflow) (TransferVersion, error)
}

// ErrNotSigned: Sign makes no such transaction.
var ErrNotSigned = errors.New("this service signs no such transaction")

// ChainSandbox is the reference of the sandbox's chain. Those of real chains are CAIP-2 names, such as
// "eip155:1".
const ChainSandbox = "sandbox"

// Errors of Chain. A payout waits for each.
var (
	ErrFeeTooHigh error = HeldError{HoldFee, errors.New("the network's fee is above the limit")}
	ErrTooSmall   error = HeldError{HoldFee, errors.New("the payout is too small for the network's fee")}
	// ErrFloatTooLow: the treasury's account has too little of the currency, or of what fees are paid in.
	ErrFloatTooLow error = HeldError{HoldFloat, errors.New("the treasury's account has too little")}
	// ErrNotTransferable: the currency cannot be sent in full at present, such as a token that is paused.
	ErrNotTransferable error = HeldError{HoldChain, errors.New("the currency cannot be transferred now")}
)

// TreasuryAccount is an account from which payouts are sent.
type TreasuryAccount struct {
	Network string // as PayoutCurrency.Network: "ethereum"
	ChainID string // CAIP-2, such as "eip155:1"
	Address string
}

// TransferPlan is a priced transfer, ready to be signed.
type TransferPlan struct {
	Destination string
	Amount      Crypto          // what the destination receives
	Fee         Crypto          // what the merchant pays for the network, in the currency of Amount
	MaxCost     Crypto          // in the chain's own currency: the fee at most
	Terms       json.RawMessage // the chain's own fields: gas, tip, cap, and so on
	Cancels     bool            // it pays nobody: see Chain.Cancel
}

// TransferVersion is one signed transaction of a transfer. All versions of a transfer have the same
// nonce, so the chain accepts at most one of them.
type TransferVersion struct {
	TransferPlan

	Nonce  uint64
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
	TransferStateDead      TransferState = "dead"      // another transaction took the nonce: none of them can be mined
	TransferStateCanceled  TransferState = "canceled"  // a version that cancels is in a block: nobody was paid
)

// TransferSnapshot is the state of a transfer on its chain.
type TransferSnapshot struct {
	State     TransferState
	TxHash    string // of the version in the block; "" unless mined, confirmed, reverted or canceled
	Height    uint64 // of that block; of the block that took the nonce when dead
	BlockHash string
	Depth     uint64 // blocks on top of it
	Cost      Crypto // in the chain's own currency: the fee that was paid; none unless in a block
	Received  Crypto // what the chain says the destination received; none unless confirmed
}

// AccountSnapshot is the state of the treasury's account on its chain.
type AccountSnapshot struct {
	NextNonce  uint64 // the first nonce that no mined or pooled transaction has
	FinalNonce uint64 // the same, of the last final block
	Balances   Purse  // of the latest block
	Height     uint64

	// The same of the last final block, as FinalNonce.
	FinalBalances Purse
	FinalHeight   uint64
}

// Outflow is a transfer out of the treasury's account that the chain has, or another use of its key. What
// another account sent is one only when it moved something: everybody can transfer nothing.
type Outflow struct {
	TxHash      string // "" when a nonce was used up without a transaction of the account
	Nonce       uint64 // 0 when another account sent the transaction
	Destination string
	Amount      Crypto // 0 for a use of the key that moved nothing
	Cost        Crypto // in the chain's own currency: the fee that the account paid; none when it paid none
	Height      uint64
}

// Moved reports whether the outflow took an amount from the account, beside its cost.
func (o Outflow) Moved() bool { return o.Amount.Sign() != 0 }

// Name names the outflow in a sentence.
func (o Outflow) Name() string {
	if o.TxHash == "" {
		return fmt.Sprintf("a use of nonce %d without a transaction", o.Nonce)
	}
	return "the transaction " + o.TxHash
}

// Outflows are the transfers out of the account in a range of final blocks.
type Outflows struct {
	All  []Outflow
	Next uint64 // the first block of the next range
}
