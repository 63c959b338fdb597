package invariant

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"go.temporal.io/sdk/client"

	"example.com/checkout/deploy/standin/devstack"
	"example.com/checkout/workflows/webhook"
)

// Sources are the witnesses, with the facts that they cannot know.
type Sources struct {
	DatabaseURL       string
	Temporal          client.Client
	Namespace         string
	ReceiverLogs      []string
	Schedule          webhook.Schedule
	DeliveryRetention time.Duration
	Histories         int          // about how many histories are replayed
	Live              *LiveSources // nil without a simulated live mode
	// Facts that only a chaos run knows; nil without one.
	Calls    []Call
	Rest     *Rest
	Canaries []Canary
	Leaks    []Leak            // leaks that receivers saw
	Logs     string            // a directory with the logs of every process
	Progress func(text string) // nil: no progress is reported
}

// Gather reads the witnesses in this order: PostgreSQL in one snapshot, Temporal, PostgreSQL again
// for the rows that changed since, and the receivers' log. The log comes last, because it must have
// every request that the others know of.
func Gather(ctx context.Context, s Sources) (*Facts, error) {
	if s.Progress == nil {
		s.Progress = func(string) {}
	}

	conn, err := pgx.Connect(ctx, s.DatabaseURL)
	if err != nil {
		return nil, fmt.Errorf("no answer from PostgreSQL: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // everything was read
	f := &Facts{
		Schedule: s.Schedule, DeliveryRetention: s.DeliveryRetention, Called: s.Calls != nil,
		Calls: s.Calls, Rest: s.Rest, Leaks: s.Leaks,
	}
	if err := readPostgres(ctx, conn, f); err != nil {
		return nil, fmt.Errorf("read PostgreSQL: %w", err)
	}

	s.Progress(
		fmt.Sprintf("PostgreSQL: %d sessions, %d events, %d deliveries", len(f.Sessions), len(f.Events), len(f.Deliveries)),
	)
	for _, read := range []func(context.Context, Sources, *Facts) error{readTemporal, readCounts} {
		if err := read(ctx, s, f); err != nil {
			return nil, fmt.Errorf("read Temporal: %w", err)
		}
	}
	if err := readLive(ctx, s, f); err != nil {
		return nil, fmt.Errorf("read the card network and the chain: %w", err)
	}
	if err := readLeaks(ctx, s, f); err != nil {
		return nil, fmt.Errorf("look for canaries: %w", err)
	}
	if err := readMoved(ctx, conn, f); err != nil {
		return nil, fmt.Errorf("read PostgreSQL again: %w", err)
	}

	f.Requests, err = readLogs(s.ReceiverLogs)
	f.Logged = len(s.ReceiverLogs) > 0
	if err != nil {
		return nil, fmt.Errorf("read the receivers' log: %w", err)
	}

	s.Progress(fmt.Sprintf("receivers' log: %d lines", len(f.Requests)))
	f.forget()
	return f, nil
}

// readLogs reads the logs of receivers, in the order of time.
func readLogs(paths []string) ([]devstack.LoggedRequest, error) {
	var all []devstack.LoggedRequest
	for _, path := range paths {
		lines, err := devstack.ReadReceiverLog(path)
		if err != nil {
			return nil, err
		}
		all = append(all, lines...)
	}
	slices.SortStableFunc(all, func(a, b devstack.LoggedRequest) int { return a.At.Compare(b.At) })
	return all, nil
}
