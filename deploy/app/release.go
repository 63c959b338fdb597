package app

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"example.com/checkout/deploy/config"
	"example.com/checkout/deploy/service"
)

func (c *call) releaseCommand() *cobra.Command {
	var runs bool
	command := &cobra.Command{
		Use:   "release {BUILD | --runs}",
		Short: "Let new runs begin with the workers of a build",
		Long: `Lets new runs begin with the workers whose CHECKOUT_BUILD_ID is BUILD. Runs that are open stay with
their build, whose workers must live until these runs have ended: --runs counts them.`,
		Example: `  checkout release 2026-11-22
  checkout release --runs`,
		DisableFlagsInUseLine: true,
		Args: func(command *cobra.Command, args []string) error {
			if runs {
				return words()(command, args)
			}
			return words("BUILD, the CHECKOUT_BUILD_ID of workers that run, or --runs")(command, args)
		},
		RunE: func(_ *cobra.Command, args []string) error {
			c.work = func(ctx context.Context) error {
				return prepared(ctx, c, "release", config.LoadTemporal, func(ctx context.Context, cfg config.Temporal) error {
					if runs {
						return countRuns(ctx, cfg, c.out)
					}
					return release(ctx, cfg, args[0], c.out)
				})
			}
			return nil
		},
	}

	command.Flags().BoolVar(&runs, "runs", false, "print how many open runs each build has")
	return command
}

// release makes new runs begin on build.
func release(ctx context.Context, cfg config.Temporal, build string, out io.Writer) error {
	temporal, err := service.AwaitTemporal(ctx, cfg)
	if err != nil {
		return err
	}
	defer temporal.Close()

	deployment := temporal.WorkerDeploymentClient().GetHandle(cfg.DeploymentName)
	known, err := deployment.Describe(ctx, client.WorkerDeploymentDescribeOptions{})
	if err != nil {
		return fmt.Errorf("release %s: no workers with a build id have run yet: %w", build, err)
	}
	before := "workers without one"
	if current := known.Info.RoutingConfig.CurrentVersion; current != nil {
		before = "build " + current.BuildID
	}

	_, err = deployment.SetCurrentVersion(ctx, client.WorkerDeploymentSetCurrentVersionOptions{
		BuildID: build, ConflictToken: known.ConflictToken,
	})
	if err != nil {
		return fmt.Errorf("release %s: %w", build, err)
	}
	_, err = fmt.Fprintf(out, "New runs begin with build %s; until now with %s.\n", build, before)
	return err
}

// countRuns prints how many open runs each build has.
func countRuns(ctx context.Context, cfg config.Temporal, out io.Writer) error {
	temporal, err := service.AwaitTemporal(ctx, cfg)
	if err != nil {
		return err
	}
	defer temporal.Close()

	deployment := temporal.WorkerDeploymentClient().GetHandle(cfg.DeploymentName)
	got, err := deployment.Describe(ctx, client.WorkerDeploymentDescribeOptions{})
	if err != nil {
		return fmt.Errorf("count runs: %w", err)
	}
	for _, version := range got.Info.VersionSummaries {
		build := version.Version.BuildID
		open, err := temporal.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{
			Query: fmt.Sprintf("TemporalWorkerDeploymentVersion = '%s:%s' AND ExecutionStatus = 'Running'",
				cfg.DeploymentName, build),
		})
		if err != nil {
			return fmt.Errorf("count runs: %w", err)
		}
		if _, err := fmt.Fprintf(out, "%s\t%d open\n", build, open.Count); err != nil {
			return err
		}
	}
	return nil
}
