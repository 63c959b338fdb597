package sandbox

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
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
	// SettleAfter is how long the network takes to decide a payment with the slow card.
	SettleAfter time.Duration

	once sync.Once
	due  chan struct{} // see dueSignal
}

// DefaultSettleAfter is long enough to see the state "processing" and short enough to wait for.
const DefaultSettleAfter = 5 * time.Second

// callbacks is how often the sandbox reports a late decision. Real networks also report more than once.
const callbacks = 3

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
		at := time.Now().Add(n.SettleAfter)
		defer n.signalDueIn(n.SettleAfter)
		c.Outcome, c.SettleAt, c.Callbacks = checkout.OutcomeProcessing, &at, callbacks
	case failsTwiceFirst:
		c.Outcome = checkout.OutcomeProcessing // each call is counted; the third decides
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

// Refund implements checkout.CardNetwork. Test payments are not refunded.
func (n *CardNetwork) Refund(context.Context, checkout.RefundRequest) (checkout.RefundResult, error) {
	return checkout.RefundResult{Status: checkout.RefundFailed}, nil
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

const (
	callbackInterval = 500 * time.Millisecond // between two callbacks of a charge
	// callbackPoll is how often RunCallbacks looks for what another process has left.
	callbackPoll = 15 * time.Second
)

// dueSignal has a value when RunCallbacks must look for due decisions.
func (n *CardNetwork) dueSignal() chan struct{} {
	n.once.Do(func() { n.due = make(chan struct{}, 1) })
	return n.due
}

func (n *CardNetwork) signalDueIn(delay time.Duration) {
	time.AfterFunc(delay, func() {
		select {
		case n.dueSignal() <- struct{}{}:
		default: // it looks soon anyway
		}
	})
}

// RunCallbacks decides slow charges when they are due and calls back several times for each, until
// ctx ends. Another process continues where this one stopped.
func (n *CardNetwork) RunCallbacks(
	ctx context.Context, call func(ctx context.Context, sessionID, transactionID string) error,
) {
	tick := time.NewTicker(callbackPoll)
	defer tick.Stop()
	for {
		if err := n.callBackDue(ctx, call); err != nil && ctx.Err() == nil {
			slog.WarnContext(ctx, "sandbox callbacks", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-n.dueSignal():
		}
	}
}

// callbackRetry is the delay before a failed callback is tried again.
const callbackRetry = 5 * time.Second

// callBackDue makes the due callbacks. A failed callback, such as one to a session that accepts no
// more signals, is tried again later and blocks no other. It returns errors of PostgreSQL only.
func (n *CardNetwork) callBackDue(
	ctx context.Context, call func(ctx context.Context, sessionID, transactionID string) error,
) error {
	due, err := n.Sandbox.DueSandboxCallbacks(ctx)
	if err != nil {
		return err
	}

	for _, c := range due {
		_, err := n.Sandbox.DecideSandboxCharge(ctx, c.TransactionID, checkout.OutcomeSucceeded, "")
		if err != nil {
			return err
		}

		note, again := n.Sandbox.CountSandboxCallback, callbackInterval
		err = call(ctx, c.SessionID, c.TransactionID)
		// ErrNotFound: the session has closed, and this is a duplicate.
		if err != nil && !errors.Is(err, checkout.ErrNotFound) {
			slog.WarnContext(ctx, "sandbox callback not taken", "session_id", c.SessionID,
				"transaction_id", c.TransactionID, "error", err)
			note, again = n.postpone, callbackRetry
		}
		n.signalDueIn(again)

		if err := note(ctx, c.TransactionID); err != nil {
			return err
		}
	}
	return nil
}

func (n *CardNetwork) postpone(ctx context.Context, transactionID string) error {
	return n.Sandbox.PostponeSandboxCallback(ctx, transactionID, callbackRetry)
}
