package sandbox

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
)

// CardNetwork implements checkout.CardNetwork and hosted.TestCards for test mode.
type CardNetwork struct {
	Sandbox *storage.Sandbox
	// ChallengeURL is the base of Challenge's pages, where a customer confirms a payment (3-D Secure).
	ChallengeURL string
	// SettleAfter is how long the network takes for what it does not decide at once.
	SettleAfter time.Duration

	once sync.Once
	due  chan struct{} // see dueSignal
}

// DefaultSettleAfter is long enough to see the state "processing" and short enough to wait for.
const DefaultSettleAfter = 5 * time.Second

// errLost is the caller's error when the answer was lost.
var errLost = errors.New("sandbox: the card network did not answer")

// meaning is the content of a token: the network's treatment of the number, and the card's details for the merchant.
// The card number is stored nowhere.
type meaning struct {
	Behavior string
	Method   checkout.PaymentMethod
}

// Tokenize implements hosted.TestCards.
func (n *CardNetwork) Tokenize(_ context.Context, c checkout.Card) (string, checkout.PaymentMethod, error) {
	known := lookup(c, time.Now())
	says := meaning{Behavior: string(known.behavior), Method: known.method(c)}
	if known.failure != "" {
		says.Behavior += ":" + string(known.failure)
	}
	text, err := json.Marshal(says)
	return "tok_" + rand.Text() + "." + string(text), says.Method, err
}

// meaningOf reads a token. It returns checkout.ErrNotFound for one that Tokenize did not make.
func meaningOf(token string) (m meaning, err error) {
	_, text, _ := strings.Cut(token, ".")
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		return m, fmt.Errorf("%w: the token is not of this card network: %w", checkout.ErrNotFound, err)
	}
	return m, nil
}

// Prepare implements checkout.CardNetwork. The sandbox finds a payment by its own id, so there is nothing to name.
func (n *CardNetwork) Prepare(_ context.Context, req checkout.ChargeRequest) (string, error) {
	return req.TransactionID, nil
}

// Confirm implements checkout.CardNetwork. A repeat returns the first outcome.
func (n *CardNetwork) Confirm(
	ctx context.Context, _ string, _ int, req checkout.ChargeRequest,
) (checkout.ChargeResult, error) {
	card, err := meaningOf(req.Token)
	if err != nil {
		return checkout.ChargeResult{}, err
	}

	behaves, failure, _ := strings.Cut(card.Behavior, ":")
	c := storage.SandboxCharge{
		TransactionID: req.TransactionID, SessionID: req.SessionID, Behavior: behaves,
		Method: card.Method,
		Amount: req.Amount, Currency: req.Currency, Outcome: checkout.OutcomeSucceeded,
		ReturnURL: req.ReturnURL,
	}

	switch behavior(behaves) {
	case declines:
		c.Outcome, c.Failure = checkout.OutcomeFailed, checkout.FailureCode(failure)
	case asksAndPasses, asksAndFails, asksAndIsAbandoned:
		c.Outcome = checkout.OutcomeActionRequired
	case settlesLater:
		c.Outcome, c.Callbacks = checkout.OutcomeProcessing, callbacks
	case failsTwiceFirst:
		c.Outcome = checkout.OutcomeProcessing // each call is counted; the third decides
	case disputed, inquired, fraudWarned:
		c.Callbacks = 1 // for the bank
	}
	if c.Callbacks > 0 {
		at := time.Now().Add(n.SettleAfter)
		c.SettleAt = &at
		defer n.signalDueIn(n.SettleAfter)
	}

	c, err = n.Sandbox.CreateSandboxCharge(ctx, c)
	if err != nil {
		return checkout.ChargeResult{}, err
	}
	switch {
	case behavior(behaves) == timesOutAfterCharge && c.Calls == 1:
		return checkout.ChargeResult{}, errLost
	case behavior(behaves) == failsTwiceFirst && c.Calls <= 2:
		return checkout.ChargeResult{}, errLost
	case behavior(behaves) == failsTwiceFirst:
		c, err = n.Sandbox.DecideSandboxCharge(ctx, req.TransactionID, checkout.OutcomeSucceeded, "")
	}
	return n.result(c), err
}

// Payment implements checkout.CardNetwork.
func (n *CardNetwork) Payment(ctx context.Context, reference string) (checkout.ChargeResult, error) {
	c, err := n.Sandbox.SandboxCharge(ctx, reference)
	undecided := behavior(c.Behavior) == failsTwiceFirst && c.Outcome == checkout.OutcomeProcessing
	if errors.Is(err, checkout.ErrNotFound) || undecided {
		return checkout.ChargeResult{Outcome: checkout.OutcomeUntried}, nil
	}
	return n.result(c), err
}

// Cancel implements checkout.CardNetwork. It stores an unknown transaction as failed, so that a
// later charge finds it decided.
func (n *CardNetwork) Cancel(
	ctx context.Context, transactionID string, reason checkout.FailureCode,
) (checkout.ChargeResult, error) {
	c, err := n.Sandbox.DecideSandboxCharge(ctx, transactionID, checkout.OutcomeFailed, reason)
	if errors.Is(err, checkout.ErrNotFound) {
		c, err = n.Sandbox.CreateSandboxCharge(ctx, storage.SandboxCharge{
			TransactionID: transactionID, Behavior: string(declines),
			Outcome: checkout.OutcomeFailed, Failure: reason,
			Method: checkout.PaymentMethod{Type: "card"},
		})
	}
	return n.result(c), err
}

func (n *CardNetwork) result(c storage.SandboxCharge) checkout.ChargeResult {
	got := checkout.ChargeResult{Outcome: c.Outcome, Failure: c.Failure, Method: c.Method}
	if c.Outcome == checkout.OutcomeActionRequired {
		got.ActionURL = n.ChallengeURL + "/" + c.TransactionID
	}
	return got
}
