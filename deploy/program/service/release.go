package service

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/metric"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"example.com/checkout/deploy/program/config"
	"example.com/checkout/workflows/contract"
)

const (
	releasePause = time.Minute // between two looks of a worker at the builds

	// lastPoll is how recently a worker that lives has polled. A poll takes a minute at most. The rest is for
	// clocks that differ.
	lastPoll = 90 * time.Second
)

// watchBuilds warns at once and every releasePause while no build of the deployment is released, or while a build
// that is needed has no worker: then nobody works on its runs, and payments stay open. Workers without a build id
// need no release.
func watchBuilds(ctx context.Context, temporal client.Client, cfg config.Temporal) {
	if cfg.BuildID == "" {
		return
	}
	var unreleased, unworked atomic.Int64
	// An error here means a bad instrument name: a bug.
	_, _ = meter.Int64ObservableGauge("checkout.worker.unreleased",
		metric.WithDescription("1 if no build of the workers' deployment is released, so new runs do not start; else 0."),
		observe(&unreleased))
	_, _ = meter.Int64ObservableGauge("checkout.build.without_worker",
		metric.WithDescription("Builds that are released or have open runs, but have no worker: their runs are stuck."),
		observe(&unworked))
	for {
		builds, err := describeBuilds(ctx, temporal, cfg.DeploymentName)
		if err != nil && ctx.Err() == nil {
			slog.WarnContext(ctx, "could not ask Temporal about the builds of the workers", "error", err)
		}
		if err == nil {
			unreleased.Store(oneIf(!builds.released))
			unworked.Store(int64(len(builds.unworked())))
			builds.warn(ctx, cfg)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(releasePause):
		}
	}
}

func observe(value *atomic.Int64) metric.Int64ObservableGaugeOption {
	return metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
		o.Observe(value.Load())
		return nil
	})
}

// builds are the builds of a deployment as Temporal knows them now.
type builds struct {
	released bool            // new runs begin with one
	needed   []string        // those with which new runs begin, and those with open runs
	polling  map[string]bool // those with a worker
}

func describeBuilds(ctx context.Context, temporal client.Client, deployment string) (builds, error) {
	handle := temporal.WorkerDeploymentClient().GetHandle(deployment)
	got, err := handle.Describe(ctx, client.WorkerDeploymentDescribeOptions{})
	if _, notFound := errors.AsType[*serviceerror.NotFound](err); notFound {
		return builds{}, nil
	}
	if err != nil {
		return builds{}, err
	}
	var all builds
	for _, version := range []*worker.WorkerDeploymentVersion{
		got.Info.RoutingConfig.CurrentVersion, got.Info.RoutingConfig.RampingVersion,
	} {
		if version != nil {
			all.released, all.needed = true, append(all.needed, version.BuildID)
		}
	}
	for _, version := range got.Info.VersionSummaries {
		if version.DrainageStatus == client.WorkerDeploymentVersionDrainageStatusDraining {
			all.needed = append(all.needed, version.Version.BuildID)
		}
	}
	all.polling, err = PollingBuilds(ctx, temporal, deployment)
	return all, err
}

// unworked returns the builds that are needed and have no worker.
func (b builds) unworked() []string {
	var missing []string
	for _, build := range b.needed {
		if !b.polling[build] {
			missing = append(missing, build)
		}
	}
	return missing
}

func (b builds) warn(ctx context.Context, cfg config.Temporal) {
	if !b.released {
		slog.ErrorContext(ctx, "no build is released: new sessions and payments are stuck; run checkout release",
			"deployment", cfg.DeploymentName, "build", cfg.BuildID)
	}
	if missing := b.unworked(); len(missing) > 0 {
		slog.ErrorContext(ctx, "these builds have no worker: their sessions and payments are stuck; start their workers",
			"deployment", cfg.DeploymentName, "builds", missing)
	}
}

// PollingBuilds returns the builds of a deployment of which a worker polls both task queues now.
func PollingBuilds(ctx context.Context, temporal client.Client, deployment string) (map[string]bool, error) {
	on := map[string]map[string]bool{}
	for _, queue := range []string{contract.TaskQueueCheckout, contract.TaskQueueWebhooks} {
		described, err := temporal.DescribeTaskQueue(ctx, queue, enumspb.TASK_QUEUE_TYPE_WORKFLOW)
		if err != nil {
			return nil, err
		}
		on[queue] = map[string]bool{}
		for _, poller := range described.Pollers {
			version := poller.GetDeploymentOptions()
			if version.GetDeploymentName() == deployment && time.Since(poller.LastAccessTime.AsTime()) < lastPoll {
				on[queue][version.GetBuildId()] = true
			}
		}
	}
	maps.DeleteFunc(on[contract.TaskQueueCheckout], func(build string, _ bool) bool {
		return !on[contract.TaskQueueWebhooks][build]
	})
	return on[contract.TaskQueueCheckout], nil
}
