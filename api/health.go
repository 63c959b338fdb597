package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
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

// readyz serves GET /readyz: the service can do its work. It asks both systems
// at once and answers within readyTimeout.
func (s *Server) readyz(r *http.Request) (int, any, error) {
	ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
	defer cancel()
	postgresql := inTime(ctx, s.Store.Ping)
	temporal := inTime(ctx, func(ctx context.Context) error {
		_, err := s.Workflows.Temporal.CheckHealth(ctx, &client.CheckHealthRequest{})
		return err
	})
	var down []string
	state := func(name string, err error) string {
		if err == nil {
			return "ok"
		}
		down = append(down, name)
		return "down"
	}
	postgresqlErr, temporalErr := <-postgresql, <-temporal
	got := &checks{PostgreSQL: state("PostgreSQL", postgresqlErr), Temporal: state("Temporal", temporalErr)}
	if down == nil {
		return http.StatusOK, health{"ok", got}, nil
	}
	e := unavailable(fmt.Errorf("not ready: %w", errors.Join(postgresqlErr, temporalErr)))
	e.body.Message = "The service is not ready: " + strings.Join(down, " and ") + " down."
	e.body.Checks = got
	return 0, nil, e
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
