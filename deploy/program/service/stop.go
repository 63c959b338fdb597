package service

import (
	"context"
	"log/slog"
	"time"

	"example.com/checkout/api/health"
)

// untilStopped returns a context that lasts delay longer than stopped. When stopped ends, state is not ready at
// once. So proxies learn of the stop while the process still answers.
func untilStopped(
	stopped context.Context, state *health.State, delay time.Duration,
) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(stopped))
	forget := context.AfterFunc(stopped, func() {
		state.MarkStopping()
		slog.InfoContext(ctx, "stopping", "delay", delay)
		time.AfterFunc(delay, cancel)
	})
	return ctx, func() {
		forget()
		cancel()
	}
}

// either returns a context that ends with the first of both.
func either(a, b context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(a)
	forget := context.AfterFunc(b, cancel)
	return ctx, func() {
		forget()
		cancel()
	}
}
