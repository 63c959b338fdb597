package invariant

import (
	"context"
	"fmt"
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
	Told     []Statement
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
		Calls: s.Calls, Told: s.Told, Rest: s.Rest, Leaks: s.Leaks, Logged: len(s.ReceiverLogs) > 0,
	}
	for _, step := range []struct {
		what string
		read func(context.Context, Sources, *Facts) error
	}{
		{"read PostgreSQL", func(ctx context.Context, _ Sources, f *Facts) error { return readPostgres(ctx, conn, f) }},
		{"read Temporal", readTemporal},
		{"read Temporal's counts", readCounts},
		{"read the card network and the chain", readLive},
		{"look for canaries", readLeaks},
		{"read PostgreSQL again", func(ctx context.Context, _ Sources, f *Facts) error { return readMoved(ctx, conn, f) }},
		{"read the receivers' log", readLogs},
	} {
		s.Progress(step.what)
		if err := step.read(ctx, s, f); err != nil {
			return nil, fmt.Errorf("%s: %w", step.what, err)
		}
	}
	s.Progress(fmt.Sprintf("%d sessions, %d events, %d deliveries, %d requests",
		len(f.Sessions), len(f.Events), len(f.Deliveries), len(f.Requests)))
	f.forget()
	return f, nil
}

func readLogs(_ context.Context, s Sources, f *Facts) error {
	for _, path := range s.ReceiverLogs {
		lines, err := devstack.ReadReceiverLog(path)
		if err != nil {
			return err
		}
		f.Requests = append(f.Requests, lines...)
	}
	return nil
}
