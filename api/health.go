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

// checks holds "ok" or "down" for each system that the service needs.
type checks struct {
	PostgreSQL string `json:"postgresql"`
	Temporal   string `json:"temporal"`
}

type health struct {
	Status string  `json:"status"`
	Checks *checks `json:"checks,omitempty"`
}

// healthz serves GET /healthz. It always answers 200: the process runs.
func (s *Server) healthz(*http.Request) (int, any, error) {
	return http.StatusOK, health{Status: "ok"}, nil
}

// readyFor is how long readyz repeats its last answer. Every client may call readyz without a
// limit.
const readyFor = time.Second

// readiness holds the last answers of PostgreSQL and Temporal.
type readiness struct {
	mu                   sync.Mutex // held while both are asked
	at                   time.Time
	postgresql, temporal error
}

// readyz serves GET /readyz: 200 when PostgreSQL and Temporal answer, else 503.
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

// askBoth asks both systems at the same time and waits at most readyTimeout. It returns the last
// answers when they are younger than readyFor.
func (s *Server) askBoth(ctx context.Context) (postgresql, temporal error) {
	last := s.ready
	last.mu.Lock()
	defer last.mu.Unlock()
	if time.Since(last.at) < readyFor {
		return last.postgresql, last.temporal
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readyTimeout) // other requests use the answer too
	defer cancel()
	first := inTime(ctx, s.Store.Ping)
	second := inTime(ctx, func(ctx context.Context) error {
		_, err := s.Workflows.Temporal.CheckHealth(ctx, &client.CheckHealthRequest{})
		return err
	})
	last.postgresql, last.temporal, last.at = <-first, <-second, time.Now()
	return last.postgresql, last.temporal
}

// inTime runs f and sends its error. It sends ctx's error when ctx ends before f does.
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
