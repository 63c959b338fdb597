package app

import (
	"context"
	"errors"
	"fmt"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"example.com/checkout/deploy/config"
	"example.com/checkout/workflows"
)

// release makes a build the one that new runs begin with. Runs that are open
// stay with theirs, whose workers must live until they have ended. With -runs
// instead of a build it says how many each build still has.
func release(ctx context.Context, cfg config.Config, args []string) error {
	if len(args) != 1 {
		return errors.New("checkout release needs the CHECKOUT_BUILD_ID of workers that run, or -runs")
	}
	temporal, err := dialTemporal(ctx, cfg)
	if err != nil {
		return err
	}
	defer temporal.Close()
	deployment := temporal.WorkerDeploymentClient().GetHandle(workflows.Deployment)
	if args[0] == "-runs" {
		return showRuns(ctx, temporal, deployment)
	}
	known, err := deployment.Describe(ctx, client.WorkerDeploymentDescribeOptions{})
	if err != nil {
		return fmt.Errorf("release %s: no workers with a build id have run yet: %w", args[0], err)
	}
	before := "workers without one"
	if current := known.Info.RoutingConfig.CurrentVersion; current != nil {
		before = "build " + current.BuildID
	}
	_, err = deployment.SetCurrentVersion(ctx, client.WorkerDeploymentSetCurrentVersionOptions{BuildID: args[0], ConflictToken: known.ConflictToken})
	if err != nil {
		return fmt.Errorf("release %s: %w", args[0], err)
	}
	fmt.Printf("New runs begin with build %s; until now with %s.\n", args[0], before)
	return nil
}

func showRuns(ctx context.Context, temporal client.Client, deployment client.WorkerDeploymentHandle) error {
	got, err := deployment.Describe(ctx, client.WorkerDeploymentDescribeOptions{})
	if err != nil {
		return fmt.Errorf("release -runs: %w", err)
	}
	for _, version := range got.Info.VersionSummaries {
		open, err := temporal.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{
			Query: fmt.Sprintf("TemporalWorkerDeploymentVersion = '%s:%s' AND ExecutionStatus = 'Running'", workflows.Deployment, version.Version.BuildID),
		})
		if err != nil {
			return fmt.Errorf("release -runs: %w", err)
		}
		fmt.Printf("%s\t%d open\n", version.Version.BuildID, open.Count)
	}
	return nil
}
