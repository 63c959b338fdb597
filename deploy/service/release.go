package service

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"example.com/checkout/deploy/config"
)

// releasePause is how often a worker looks whether a build is released.
const releasePause = time.Minute

// tellUnreleased warns at once and every releasePause while no build of the deployment is released:
// then nobody works on new runs, and payments stay open. Workers without a build id need no release.
func tellUnreleased(ctx context.Context, temporal client.Client, cfg config.Temporal) {
	if cfg.BuildID == "" {
		return
	}
	var unreleased atomic.Bool
	// An error here means a bad instrument name: a bug.
	_, _ = meter.Int64ObservableGauge("checkout.worker.unreleased",
		metric.WithDescription("1 if no build of the workers' deployment is released, so that new runs stand still; else 0."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(oneIf(unreleased.Load()))
			return nil
		}))
	for {
		is, err := neverReleased(ctx, temporal, cfg.DeploymentName)
		switch {
		case err != nil && ctx.Err() == nil:
			slog.WarnContext(ctx, "could not ask Temporal whether a build is released", "error", err)
		case err == nil:
			unreleased.Store(is)
		}
		if err == nil && is {
			slog.ErrorContext(ctx, "no build is released: nobody works on new sessions and payments; run checkout release",
				"deployment", cfg.DeploymentName, "build", cfg.BuildID)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(releasePause):
		}
	}
}

// neverReleased reports whether new runs begin with no build of the deployment.
func neverReleased(ctx context.Context, temporal client.Client, deployment string) (bool, error) {
	handle := temporal.WorkerDeploymentClient().GetHandle(deployment)
	got, err := handle.Describe(ctx, client.WorkerDeploymentDescribeOptions{})
	var notFound *serviceerror.NotFound
	if errors.As(err, &notFound) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	routing := got.Info.RoutingConfig
	return routing.CurrentVersion == nil && routing.RampingVersion == nil, nil
}
