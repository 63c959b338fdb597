// Package health reports whether a process lives and can work. The API and the worker answer
// /healthz and /readyz from it.
package health

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.temporal.io/sdk/client"
)

const (
	// readyTimeout is how long Readiness waits for PostgreSQL and Temporal.
	readyTimeout = 2 * time.Second
	// readyFor is how long Readiness repeats their last answers. Every client may ask without a limit.
	readyFor = time.Second
)

// Check asks a system for a sign of life.
type Check func(ctx context.Context) error

// Temporal asks Temporal for a sign of life.
func Temporal(c client.Client) Check {
	return func(ctx context.Context) error {
		_, err := c.CheckHealth(ctx, &client.CheckHealthRequest{})
		return err
	}
}

// errNotAsked is the answer of a system that nobody has connected to yet.
var errNotAsked = errors.New("not connected yet")

// State is the health of a process. It is safe for concurrent use.
type State struct {
	mu                   sync.Mutex // held while both systems are asked
	postgresql, temporal Check
	at                   time.Time // of the last answers
	answers              struct{ postgresql, temporal error }

	phase   sync.Mutex
	waiting string // why the process cannot work yet; "" since it has started
	stops   bool
}

// Starting returns the state of a process that waits for what.
func Starting(what string) *State { return &State{waiting: what} }

// SetWaiting sets the reason why the process cannot work yet.
func (s *State) SetWaiting(why string) {
	s.phase.Lock()
	defer s.phase.Unlock()
	s.waiting = why
}

// SetChecks sets the checks of the systems; nil means that there is no connection yet.
func (s *State) SetChecks(postgresql, temporal Check) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.postgresql, s.temporal, s.at = postgresql, temporal, time.Time{}
}

// MarkReady marks the process as started.
func (s *State) MarkReady() { s.SetWaiting("") }

// MarkStopping marks the process as stopping. It is no longer ready.
func (s *State) MarkStopping() {
	s.phase.Lock()
	defer s.phase.Unlock()
	s.stops = true
}

// Readiness is the state of a process: whether it can work.
type Readiness struct {
	Fault                string // why it cannot; "" when it can
	PostgreSQL, Temporal error  // their last answers, about a second old at most unless the process stops
}

// Err returns the fault with the systems' answers, for the log; nil when the process can work.
func (r Readiness) Err() error {
	if r.Fault == "" {
		return nil
	}
	return fmt.Errorf("not ready: %s: %w", r.Fault, errors.Join(r.PostgreSQL, r.Temporal))
}

// Readiness asks PostgreSQL and Temporal at the same time and waits at most readyTimeout. Without Temporal
// a process is ready nevertheless: it does what it can, and another process could do no more.
func (s *State) Readiness(ctx context.Context) Readiness {
	s.phase.Lock()
	stops := s.stops
	s.phase.Unlock()
	r := Readiness{}
	r.PostgreSQL, r.Temporal = s.ask(ctx, stops)
	s.phase.Lock()
	defer s.phase.Unlock()
	switch {
	case s.stops:
		r.Fault = "shutting down"
	case s.waiting != "":
		r.Fault = s.waiting
	case r.PostgreSQL != nil:
		r.Fault = "PostgreSQL down"
	}
	return r
}

// ask asks both systems. A process that stops closes its connections, so it repeats the last answers.
func (s *State) ask(ctx context.Context, stops bool) (postgresql, temporal error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if asked := !s.at.IsZero(); time.Since(s.at) >= readyFor && !(stops && asked) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readyTimeout) // others use the answers too
		defer cancel()
		first, second := inTime(ctx, s.postgresql), inTime(ctx, s.temporal)
		s.answers.postgresql, s.answers.temporal, s.at = <-first, <-second, time.Now()
	}
	return s.answers.postgresql, s.answers.temporal
}

// inTime runs check and sends its error. It sends ctx's error when ctx ends before check does.
func inTime(ctx context.Context, check Check) <-chan error {
	answer, result := make(chan error, 1), make(chan error, 1)
	if check == nil {
		result <- errNotAsked
		return result
	}
	go func() { answer <- check(ctx) }()
	go func() {
		select {
		case err := <-answer:
			result <- err
		case <-ctx.Done():
			result <- ctx.Err()
		}
	}()
	return result
}

// Checks holds "ok" or "down" for each system that the service uses.
type Checks struct {
	PostgreSQL string `json:"postgresql"`
	Temporal   string `json:"temporal"`
}

// Checks returns the answers of the systems.
func (r Readiness) Checks() *Checks {
	return &Checks{describeCheck(r.PostgreSQL), describeCheck(r.Temporal)}
}

func describeCheck(err error) string {
	if err != nil {
		return "down"
	}
	return "ok"
}

// Message is the text of /readyz for a process that is not ready.
func (r Readiness) Message() string { return "The service is not ready: " + r.Fault + "." }

// OK is the body of /healthz, and with Checks that of /readyz.
type OK struct {
	Status string  `json:"status"`
	Checks *Checks `json:"checks,omitempty"`
}
