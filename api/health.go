package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"go.temporal.io/sdk/client"
)

// readyTimeout is how long readyz waits for PostgreSQL and Temporal.
const readyTimeout = 2 * time.Second

// checks says of each system the service needs whether it is "ok" or "down".
type checks struct {
	PostgreSQL string `json:"postgresql"`
	Temporal   string `json:"temporal"`
}

type health struct {
	Status string  `json:"status"`
	Checks *checks `json:"checks,omitempty"`
}

// healthz serves GET /healthz: the process lives.
func (s *Server) healthz(*http.Request) (int, any, error) {
	return http.StatusOK, health{Status: "ok"}, nil
}

// readyFor is how long an answer of readyz is good for: anybody may ask for it,
// any number of times.
const readyFor = time.Second

// readiness is what PostgreSQL and Temporal said last.
type readiness struct {
	mu                   sync.Mutex // held by who asks them
	at                   time.Time
	postgresql, temporal error
}

// readyz serves GET /readyz: the service can do its work.
func (s *Server) readyz(r *http.Request) (int, any, error) {
	postgresqlErr, temporalErr := s.askBoth(r.Context())
	var down []string
	state := func(name string, err error) string {
		if err == nil {
			return "ok"
		}
		down = append(down, name)
		return "down"
	}
	got := &checks{PostgreSQL: state("PostgreSQL", postgresqlErr), Temporal: state("Temporal", temporalErr)}
	if down == nil {
		return http.StatusOK, health{"ok", got}, nil
	}
	e := unavailable(fmt.Errorf("not ready: %w", errors.Join(postgresqlErr, temporalErr)))
	e.body.Message = "The service is not ready: " + strings.Join(down, " and ") + " down."
	e.body.Checks = got
	return 0, nil, e
}

// askBoth asks both systems at once, unless somebody just did, and takes at most
// readyTimeout.
func (s *Server) askBoth(ctx context.Context) (postgresql, temporal error) {
	last := s.ready
	last.mu.Lock()
	defer last.mu.Unlock()
	if time.Since(last.at) < readyFor {
		return last.postgresql, last.temporal
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readyTimeout) // the answer is not for this request alone
	defer cancel()
	first := inTime(ctx, s.Store.Ping)
	second := inTime(ctx, func(ctx context.Context) error {
		_, err := s.Workflows.Temporal.CheckHealth(ctx, &client.CheckHealthRequest{})
		return err
	})
	last.postgresql, last.temporal, last.at = <-first, <-second, time.Now()
	return last.postgresql, last.temporal
}

// inTime runs f and sends its error, or that of ctx when f does not heed it.
func inTime(ctx context.Context, f func(context.Context) error) <-chan error {
	answer, result := make(chan error, 1), make(chan error, 1)
	go func() { answer <- f(ctx) }()
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
