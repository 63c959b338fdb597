package runs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"example.com/checkout/workflows"
	"example.com/checkout/workflows/checkout"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
)

// Ids of the schedules. The id of a run is the id of its schedule, followed by the time. ScheduleTreasury
// and ScheduleBooks are of live mode; those of test mode end in "-test".
const (
	ScheduleReconcile = "reconcile"
	ScheduleRetention = "retention"
	ScheduleTreasury  = "treasury"
	ScheduleBooks     = "books"
)

// Schedules holds the settings of the schedules.
type Schedules struct {
	ReconcileEvery time.Duration
	Retention      time.Duration // age at which finished deliveries leave the log
	// Chains and Cards are the modes with real chains and with a real card network.
	Chains, Cards []checkout.Mode
}

// Intervals of the schedules of real networks.
const (
	treasuryEvery = 15 * time.Second
	booksEvery    = 5 * time.Minute
)

// EnsureSchedules creates the schedules or changes them to s. Several processes may call it at
// once.
func (c *Client) EnsureSchedules(ctx context.Context, s Schedules) error {
	return errors.Join(
		c.ensureSchedule(ctx, ScheduleReconcile, s.ReconcileEvery, &client.ScheduleWorkflowAction{
			ID: ScheduleReconcile, Workflow: workflows.TypeReconcile,
			TaskQueue: workflows.TaskQueueCheckout,
		}),
		c.ensureSchedule(ctx, ScheduleRetention, time.Hour, &client.ScheduleWorkflowAction{
			ID: ScheduleRetention, Workflow: workflows.TypeRetention,
			TaskQueue: workflows.TaskQueueCheckout,
			Args:      []any{workflows.RetentionInput{Age: s.Retention}},
		}),
		c.ensureModes(ctx, s.Chains, ScheduleTreasury, treasuryEvery, workflows.TypeTreasurySync),
		c.ensureModes(ctx, s.Cards, ScheduleBooks, booksEvery, workflows.TypeBooks),
	)
}

// ensureModes makes a schedule for each of the modes. It leaves the schedules of the other modes alone:
// another worker may have their networks.
func (c *Client) ensureModes(
	ctx context.Context, modes []checkout.Mode, id string, every time.Duration, workflow string,
) error {
	var faults []error
	for _, mode := range modes {
		of := scheduleOf(id, mode)
		faults = append(faults, c.ensureSchedule(ctx, of, every, &client.ScheduleWorkflowAction{
			ID: of, Workflow: workflow, TaskQueue: workflows.TaskQueueCheckout,
			Args: []any{workflows.ModeInput{Mode: mode}},
		}))
	}
	return errors.Join(faults...)
}

func scheduleOf(id string, mode checkout.Mode) string {
	if mode.Live() {
		return id
	}
	return id + "-" + string(mode)
}

// MissingSchedules returns the ids of the schedules of s that Temporal does not have. It returns
// ErrOutcomeUnknown.
func (c *Client) MissingSchedules(ctx context.Context, s Schedules) ([]string, error) {
	ids := []string{ScheduleReconcile, ScheduleRetention}
	for _, mode := range s.Chains {
		ids = append(ids, scheduleOf(ScheduleTreasury, mode))
	}
	for _, mode := range s.Cards {
		ids = append(ids, scheduleOf(ScheduleBooks, mode))
	}
	var missing []string
	for _, id := range ids {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		_, err := c.Temporal.ScheduleClient().GetHandle(ctx, id).Describe(ctx)
		cancel()
		err = answer("describe schedule", err)
		if err != nil && !errors.Is(err, checkout.ErrNotFound) {
			return nil, err
		}
		if err != nil {
			missing = append(missing, id)
		}
	}
	return missing, nil
}

func (c *Client) ensureSchedule(
	ctx context.Context, id string, every time.Duration, action *client.ScheduleWorkflowAction,
) error {
	ctx, cancel := context.WithTimeout(ctx, scheduleTimeout)
	defer cancel()
	spec := client.ScheduleSpec{Intervals: []client.ScheduleIntervalSpec{{Every: every}}}
	_, err := c.Temporal.ScheduleClient().Create(ctx, client.ScheduleOptions{
		ID: id, Spec: spec, Action: action, Overlap: enumspb.SCHEDULE_OVERLAP_POLICY_SKIP,
		CatchupWindow: scheduleCatchup,
	})
	if errors.Is(err, temporal.ErrScheduleAlreadyRunning) {
		err = c.Temporal.ScheduleClient().GetHandle(ctx, id).Update(ctx,
			client.ScheduleUpdateOptions{
				DoUpdate: func(in client.ScheduleUpdateInput) (*client.ScheduleUpdate, error) {
					in.Description.Schedule.Spec = &spec
					in.Description.Schedule.Action = action
					return &client.ScheduleUpdate{Schedule: &in.Description.Schedule}, nil
				},
			})
	}
	if err != nil {
		return fmt.Errorf("schedule %s: %w", id, err)
	}
	return nil
}

const (
	scheduleTimeout = 10 * time.Second
	// scheduleCatchup is short: after an outage the next regular run does the work.
	scheduleCatchup = time.Minute
)

// ReconcileNow starts Reconcile now, or once more after the present one. The caller may ignore an
// error: the schedule starts Reconcile anyway.
func (c *Client) ReconcileNow(ctx context.Context) error { return c.runNow(ctx, ScheduleReconcile) }

// BooksNow starts Books now, or once more after the present one. The caller may ignore an error: the
// schedule starts Books anyway.
func (c *Client) BooksNow(ctx context.Context) error { return c.runNow(ctx, ScheduleBooks) }

// runNow starts the run of a schedule now, or once more after the present one.
func (c *Client) runNow(ctx context.Context, scheduleID string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	schedule := c.Temporal.ScheduleClient().GetHandle(ctx, scheduleID)
	return answer(scheduleID, schedule.Trigger(ctx, client.ScheduleTriggerOptions{
		Overlap: enumspb.SCHEDULE_OVERLAP_POLICY_BUFFER_ONE,
	}))
}
