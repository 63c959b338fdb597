package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"go.temporal.io/sdk/client"

	"example.com/checkout/deploy/program/config"
	"example.com/checkout/worker"
)

// unreadableSteps are an operator's steps after a worker.UnreadableRunsError.
const unreadableSteps = `No run has changed. Either let these runs end on the former version, or start them again on this one.

To let them end, set a TEMPORAL_WORKER_BUILD_ID for the workers of the former version, start them and run
"checkout release BUILD". New runs then belong to that build. "checkout release --runs" counts those without one:
a session takes an hour, a delivery 15. Afterwards start this version, with another TEMPORAL_WORKER_BUILD_ID. Stop the
former APIs before you release that build: they start runs that it cannot read.

To start them again, stop the APIs and workers of the former version, run "checkout setup --restart-runs" of this
version, and start it. Within two minutes Reconcile starts the runs again from PostgreSQL. Nothing is charged or paid
twice. A delivery has six new attempts.`

func openRuns(temporal client.Client, cfg config.Temporal) worker.OpenRuns {
	return worker.OpenRuns{Temporal: temporal, Deployment: cfg.DeploymentName, BuildID: cfg.BuildID}
}

// requireReadable returns an error with unreadableSteps when workers of this program would get runs that they cannot go
// on with. A Temporal that cannot say holds up no worker.
func requireReadable(ctx context.Context, open worker.OpenRuns) error {
	replayed, err := open.Check(ctx)
	if errors.As(err, new(worker.UnreadableRunsError)) {
		return fmt.Errorf("%w\n%s", err, unreadableSteps)
	}
	if err != nil {
		slog.WarnContext(ctx, "could not look whether open runs fit this version", "error", err)
		return nil
	}
	slog.InfoContext(ctx, "open runs fit this version", "replayed", replayed)
	return nil
}

// setUpOver is requireReadable for the setup. It needs an answer of Temporal. With restart it terminates the runs.
func setUpOver(ctx context.Context, open worker.OpenRuns, restart bool, report func(done string)) error {
	_, err := open.Check(ctx)
	var unreadable worker.UnreadableRunsError
	switch {
	case !errors.As(err, &unreadable):
		return err
	case !restart:
		return fmt.Errorf("%w\n%s", err, unreadableSteps)
	}
	ended, err := open.Terminate(ctx, unreadable, "checkout setup --restart-runs")
	report(fmt.Sprintf("terminated %d open runs; Reconcile starts them again when workers of this version run", ended))
	return err
}
