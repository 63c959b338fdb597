package runs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/contract"

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
	Retention      contract.RetentionInput
	// Chains and Cards are the modes with real chains and with a real card network.
	Chains, Cards []checkout.Mode
}

// Intervals of the schedules of real networks.
const (
	treasuryEvery = 15 * time.Second
	booksEvery    = 5 * time.Minute
)

// schedule is a schedule as it should be.
type schedule struct {
	id       string
	every    time.Duration
	workflow string
	args     []any
}

// all returns the schedules that s needs.
func (s Schedules) all() []schedule {
	all := []schedule{
		{ScheduleReconcile, s.ReconcileEvery, contract.TypeReconcile, nil},
		{ScheduleRetention, time.Hour, contract.TypeRetention, []any{s.Retention}},
	}
	for _, mode := range s.Chains {
		all = append(all, ofMode(mode, ScheduleTreasury, treasuryEvery, contract.TypeTreasurySync))
	}
	for _, mode := range s.Cards {
		all = append(all, ofMode(mode, ScheduleBooks, booksEvery, contract.TypeBooks))
	}
	return all
}

func ofMode(mode checkout.Mode, id string, every time.Duration, workflow string) schedule {
	if !mode.Live() {
		id += "-" + string(mode)
	}
	return schedule{id, every, workflow, []any{contract.ModeInput{Mode: mode}}}
}

// EnsureSchedules creates the schedules or changes them to s. It leaves those of modes that s does not
// name alone. Several processes may call it at once.
func (c *Client) EnsureSchedules(ctx context.Context, s Schedules) error {
	var faults []error
	for _, wanted := range s.all() {
		faults = append(faults, c.ensureSchedule(ctx, wanted))
	}
	return errors.Join(faults...)
}

// MissingSchedules returns the ids of the schedules of s that Temporal does not have. It returns ErrOutcomeUnknown.
func (c *Client) MissingSchedules(ctx context.Context, s Schedules) ([]string, error) {
	var missing []string
	for _, wanted := range s.all() {
		err := c.describeSchedule(ctx, wanted.id)
		if err != nil && !errors.Is(err, checkout.ErrNotFound) {
			return nil, err
		}
		if err != nil {
			missing = append(missing, wanted.id)
		}
	}
	return missing, nil
}

func (c *Client) describeSchedule(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := c.Temporal.ScheduleClient().GetHandle(ctx, id).Describe(ctx)
	return answer("describe schedule", err)
}

func (c *Client) ensureSchedule(ctx context.Context, wanted schedule) error {
	ctx, cancel := context.WithTimeout(ctx, scheduleTimeout)
	defer cancel()
	spec := client.ScheduleSpec{Intervals: []client.ScheduleIntervalSpec{{Every: wanted.every}}}
	action := &client.ScheduleWorkflowAction{
		ID: wanted.id, Workflow: wanted.workflow, TaskQueue: contract.TaskQueueCheckout, Args: wanted.args,
	}
	_, err := c.Temporal.ScheduleClient().Create(ctx, client.ScheduleOptions{
		ID: wanted.id, Spec: spec, Action: action, Overlap: enumspb.SCHEDULE_OVERLAP_POLICY_SKIP,
		CatchupWindow: scheduleCatchup,
	})
	if errors.Is(err, temporal.ErrScheduleAlreadyRunning) {
		err = c.Temporal.ScheduleClient().GetHandle(ctx, wanted.id).Update(ctx,
			client.ScheduleUpdateOptions{
				DoUpdate: func(in client.ScheduleUpdateInput) (*client.ScheduleUpdate, error) {
					in.Description.Schedule.Spec = &spec
					in.Description.Schedule.Action = action
					return &client.ScheduleUpdate{Schedule: &in.Description.Schedule}, nil
				},
			})
	}
	if err != nil {
		return fmt.Errorf("schedule %s: %w", wanted.id, err)
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

// BooksNow starts Books of a mode now, or once more after the present one. The caller may ignore an error:
// the schedule starts Books anyway.
func (c *Client) BooksNow(ctx context.Context, mode checkout.Mode) error {
	return c.runNow(ctx, ofMode(mode, ScheduleBooks, booksEvery, contract.TypeBooks).id)
}

// runNow starts the run of a schedule now, or once more after the present one.
func (c *Client) runNow(ctx context.Context, scheduleID string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	schedule := c.Temporal.ScheduleClient().GetHandle(ctx, scheduleID)
	return answer(scheduleID, schedule.Trigger(ctx, client.ScheduleTriggerOptions{
		Overlap: enumspb.SCHEDULE_OVERLAP_POLICY_BUFFER_ONE,
	}))
}
