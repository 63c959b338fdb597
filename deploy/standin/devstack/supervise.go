package devstack

import (
	"context"
	"fmt"
	"time"

	"example.com/checkout/storage/pgtemp"
)

// Supervise restarts parts that end by themselves, until ctx ends.
func (s *Stack) Supervise(ctx context.Context) {
	for {
		var (
			name  string
			again func(context.Context) error
		)
		var postgres, ui <-chan struct{} // nil when the stack has no such part
		if s.Postgres != nil {
			postgres = s.Postgres.Done()
		}
		if s.UI != nil {
			ui = s.UI.Done()
		}
		select {
		case <-ctx.Done():
			return
		case <-postgres:
			name, again = "PostgreSQL", s.StartPostgres
		case <-ui:
			name, again = "Temporal's UI", s.startUI
		case <-s.Temporal.Done():
			name, again = "Temporal", s.Temporal.Start
		case <-s.Worker.Done():
			name, again = "the worker", s.StartWorker
		case <-s.API.Done():
			name, again = "the API", s.StartAPI
		}
		if ctx.Err() != nil {
			return
		}
		// A lost line of progress does no harm.
		_, _ = fmt.Fprintf(s.options.Out, "%s ended; starting it again\n", name)
		if err := again(ctx); err != nil && ctx.Err() == nil {
			_, _ = fmt.Fprintf(s.options.Out, "%s: %v\n", name, err)
			_ = pgtemp.Pause(ctx, time.Second) // the loop looks at ctx
		}
	}
}
