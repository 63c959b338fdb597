package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"example.com/checkout/deploy/program/config"
	"example.com/checkout/deploy/program/service"
	"example.com/checkout/workflows/contract"
)

var releaseCommand = command{
	use:   "release {BUILD | --runs | --drained BUILD}",
	short: "Start new runs on the workers of a build",
	long: `Starts new runs on the workers whose TEMPORAL_WORKER_BUILD_ID is BUILD. Open runs stay on their build:
keep its workers until it has drained. --runs counts the open runs, and those without a build. Scripts use --drained,
which exits with status 1 while the build is needed. The command refuses a build without polling workers. A worker
that ended less than 90 seconds ago may still count.`,
	example: `  checkout release 2026-11-22 --wait
  checkout release --runs
  checkout release --drained 2026-11-21`,
	args: func(command *cobra.Command, args []string) error {
		if command.Flags().Changed("runs") || command.Flags().Changed("drained") {
			return words()(command, args)
		}
		return words("BUILD, the TEMPORAL_WORKER_BUILD_ID of workers that run, or --runs, or --drained BUILD")(command, args)
	},
	flags: func(f *pflag.FlagSet) {
		f.Bool("runs", false, "show each build's open runs, which build is released, and which have no worker")
		f.Bool("wait", false, "wait up to 10 minutes for workers of the build first")
		f.String("drained", "", "succeed if no open run needs the workers of this build")
	},
	exclusive: []string{"runs wait drained"},
	run:       withSettings(config.LoadTemporal, (*call).release),
}

func (c *call) release(ctx context.Context, cfg config.Temporal) error {
	temporal, err := service.AwaitTemporal(ctx, cfg)
	if err != nil {
		return err
	}
	defer temporal.Close()
	b := builds{temporal, temporal.WorkerDeploymentClient().GetHandle(cfg.DeploymentName), cfg.DeploymentName, c.printLine}
	drained := c.text("drained")
	switch {
	case c.isSet("runs"):
		return retried(ctx, b.countRuns)
	case drained != "":
		return retried(ctx, func(ctx context.Context) error { return b.requireDrained(ctx, drained) })
	}
	build := c.args[0]
	if c.isSet("wait") {
		err = b.awaitWorkers(ctx, build)
	} else {
		err = retried(ctx, func(ctx context.Context) error { return b.requireWorkers(ctx, build) })
	}
	if err != nil {
		return err
	}
	return retried(ctx, func(ctx context.Context) error { return b.release(ctx, build) })
}

// builds are the builds of the workers' deployment in Temporal.
type builds struct {
	temporal   client.Client
	deployment client.WorkerDeploymentHandle
	name       string
	report     func(line string)
}

// workersPatience is how long release --wait waits for workers.
const workersPatience = 10 * time.Minute

// awaitWorkers waits until workers of build poll both task queues.
func (b builds) awaitWorkers(ctx context.Context, build string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, workersPatience,
		fmt.Errorf("release %s: no worker of this build polled both task queues for %v", build, workersPatience))
	defer cancel()
	for said := false; ; said = true {
		err := b.requireWorkers(ctx, build)
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, errNoWorker) && ctx.Err() == nil:
			return err
		case !said:
			b.report("Waiting for workers of build " + build + ".")
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(time.Second):
		}
	}
}

var errNoWorker = errors.New("no worker of this build polls both task queues; start one, or wait with --wait")

// requireWorkers returns errNoWorker unless a worker of build polls both task queues and Temporal knows the build
// on both. New runs would stand still.
func (b builds) requireWorkers(ctx context.Context, build string) error {
	polling, err := service.PollingBuilds(ctx, b.temporal, b.name)
	if err != nil {
		return fmt.Errorf("release %s: %w", build, err)
	}
	version, err := b.deployment.DescribeVersion(ctx, client.WorkerDeploymentDescribeVersionOptions{BuildID: build})
	if _, notFound := errors.AsType[*serviceerror.NotFound](err); err != nil && !notFound {
		return fmt.Errorf("release %s: %w", build, err)
	}
	if err != nil || !polling[build] || !knowsBoth(version.Info.TaskQueuesInfos) {
		return fmt.Errorf("release %s: %w", build, errNoWorker)
	}
	return nil
}

// knowsBoth reports whether Temporal has seen workflow workers of a build on both task queues, now or before.
func knowsBoth(queues []client.WorkerDeploymentTaskQueueInfo) bool {
	seen := map[string]bool{}
	for _, queue := range queues {
		if queue.Type == client.TaskQueueTypeWorkflow {
			seen[queue.Name] = true
		}
	}
	return seen[contract.TaskQueueCheckout] && seen[contract.TaskQueueWebhooks]
}

// requireDrained returns an error while open runs need the workers of build, or new runs begin there.
func (b builds) requireDrained(ctx context.Context, build string) error {
	known, err := b.known(ctx)
	if err != nil {
		return fmt.Errorf("build %s: %w", build, err)
	}
	if released(known) == build {
		return fmt.Errorf("build %s is needed: new runs start on it", build)
	}
	open, err := b.openRuns(ctx, b.of(build))
	if err == nil && open > 0 {
		err = fmt.Errorf("build %s is needed: it has %d open runs", build, open)
	}
	if err != nil {
		return err
	}
	said := "Build %s has drained: it has no open run."
	if !slices.ContainsFunc(known.Info.VersionSummaries, func(version client.WorkerDeploymentVersionSummary) bool {
		return version.Version.BuildID == build
	}) {
		said = "Temporal knows no build %s, and no open run of it."
	}
	b.report(fmt.Sprintf(said, build))
	return nil
}

// known returns what Temporal knows of the builds, nothing before workers with a build id have run.
func (b builds) known(ctx context.Context) (client.WorkerDeploymentDescribeResponse, error) {
	known, err := b.deployment.Describe(ctx, client.WorkerDeploymentDescribeOptions{})
	if _, notFound := errors.AsType[*serviceerror.NotFound](err); notFound {
		err = nil
	}
	return known, err
}

// released returns the build on which new runs start, "" when there is none.
func released(d client.WorkerDeploymentDescribeResponse) string {
	if current := d.Info.RoutingConfig.CurrentVersion; current != nil {
		return current.BuildID
	}
	return ""
}

// of returns the query for the runs of build.
func (b builds) of(build string) string {
	return fmt.Sprintf("TemporalWorkerDeploymentVersion = '%s:%s'", b.name, build)
}

// withoutBuild is the query for the runs of workers without a build id.
const withoutBuild = "TemporalWorkerDeploymentVersion IS NULL AND TaskQueue IN ('" + contract.TaskQueueCheckout +
	"', '" + contract.TaskQueueWebhooks + "')"

// openRuns counts the open runs to which the query applies.
func (b builds) openRuns(ctx context.Context, query string) (int64, error) {
	open, err := b.temporal.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{
		Query: query + " AND ExecutionStatus = 'Running'",
	})
	if err != nil {
		return 0, fmt.Errorf("count runs: %w", err)
	}
	return open.Count, nil
}

// tries is how often a command calls a Temporal that does not answer in time. Each call may be repeated.
const tries = 5

func retried(ctx context.Context, ask func(context.Context) error) (err error) {
	for range tries {
		err = ask(ctx)
		if _, slow := errors.AsType[*serviceerror.DeadlineExceeded](err); !slow && !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
	}
	return err
}

// release makes new runs begin on build.
func (b builds) release(ctx context.Context, build string) error {
	known, err := b.deployment.Describe(ctx, client.WorkerDeploymentDescribeOptions{})
	if err != nil {
		return fmt.Errorf("release %s: no workers with a build id have run yet: %w", build, err)
	}
	before := "workers without one"
	if current := released(known); current != "" {
		before = "build " + current
	}

	_, err = b.deployment.SetCurrentVersion(ctx, client.WorkerDeploymentSetCurrentVersionOptions{
		BuildID: build, ConflictToken: known.ConflictToken,
	})
	if err != nil {
		return fmt.Errorf("release %s: %w", build, err)
	}
	b.report(fmt.Sprintf("New runs start on build %s; until now on %s.", build, before))
	return nil
}

// countRuns prints how many open runs each build has, and how many have none.
func (b builds) countRuns(ctx context.Context) error {
	got, err := b.known(ctx)
	polling, noPollers := service.PollingBuilds(ctx, b.temporal, b.name)
	if err := cmp.Or(err, noPollers); err != nil {
		return fmt.Errorf("count runs: %w", err)
	}
	var lines []string
	for _, version := range got.Info.VersionSummaries {
		build := version.Version.BuildID
		open, err := b.openRuns(ctx, b.of(build))
		if err != nil {
			return err
		}
		line := fmt.Sprintf("%s\t%d open", build, open)
		if released(got) == build {
			line += "\treleased"
		}
		if !polling[build] {
			line += "\tno worker polls"
		}
		lines = append(lines, line)
	}
	open, err := b.openRuns(ctx, withoutBuild)
	if err != nil {
		return err
	}
	if open > 0 || lines == nil {
		lines = append(lines, fmt.Sprintf("without a build\t%d open", open))
	}
	b.report(strings.Join(lines, "\n"))
	return nil
}
