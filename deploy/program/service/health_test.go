package service

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/api/health"
)

// TestGate_ARequestDuringTheStartIsAnswered starts the process while a request waits for the answers
// of PostgreSQL and Temporal.
func TestGate_ARequestDuringTheStartIsAnswered(t *testing.T) {
	t.Parallel()
	asked, answer := make(chan struct{}), make(chan struct{})
	state := health.Starting("it waits")
	state.SetChecks(func(context.Context) error {
		close(asked)
		<-answer
		return nil
	}, func(context.Context) error { return nil })
	gate := newGate(state)
	got := httptest.NewRecorder()
	done := make(chan struct{})
	go func() {
		gate.ServeHTTP(got, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/checkout", http.NoBody))
		close(done)
	}()
	<-asked
	gate.open(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) }))
	state.MarkReady()
	close(answer)
	<-done
	require.Equal(t, http.StatusCreated, got.Code)
}
