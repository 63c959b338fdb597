// Package devstack runs the service with all it needs on loopback, without containers: PostgreSQL, the real Temporal
// server on that PostgreSQL, and Temporal's UI. The command devstack and the end-to-end tests use it.
//
// Every process that it starts ends with the process that started it, even after kill -9. A stack
// can start again on its directory after any process was killed at any moment.
package devstack

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/caarlos0/env/v11"

	"example.com/checkout/deploy/standin/mailbox"
	"example.com/checkout/storage/pgtemp"
)

// Ports are the ports of a stack on 127.0.0.1; 0 means a free port.
type Ports struct {
	API, Page, Dashboard, Receiver, UI, Temporal, Postgres, Health int

	// Of the simulated live mode: the card network's API, the nodes of the chains, and the treasury's signer.
	// The node of Ethereum is the signer too; they differ only in Options.Through.
	Acquirer, Ethereum, Signer, Bitcoin int
}

// Options describe the stack to start.
type Options struct {
	Dir         string // keeps all data between starts
	Fresh       bool   // start empty: remove what an earlier start left in Dir
	Ports       Ports
	DatabaseURL string // an existing database instead of a private PostgreSQL; its role may create databases
	PgBouncer   bool   // the API and the worker reach the private PostgreSQL through PgBouncer
	// SessionLifetime and RetrySchedule shorten the times of test mode, in the
	// form of CHECKOUT_TEST_SESSION_LIFETIME and CHECKOUT_TEST_RETRY_SCHEDULE.
	SessionLifetime, RetrySchedule string
	NoUI                           bool
	LiveDouble                     bool // simulate everything that live mode needs
	// Bitcoin is how often the simulated live mode has a block of Bitcoin; 0: it has no Bitcoin.
	Bitcoin   time.Duration
	Namespace string // in Temporal; "": the service's own default
	// Temporal is a running server to use instead of a private one: the stack adds Namespace to it.
	Temporal        *Temporal
	Security        *TemporalSecurity
	TemporalMetrics string // host:port where Temporal's server shows its own metrics; "": nowhere
	// Float is what the simulated treasury has of each currency at first, in US dollars; 0: plenty.
	Float int64
	// Through has the ports of proxies for a command, "api" or "worker": its processes reach Temporal, PostgreSQL and
	// what live mode needs through them. The caller runs the proxies. 0 or no entry means a direct connection.
	Through map[string]Ports
	Env     []string  // more settings for the API and the worker
	Out     io.Writer // progress
}

// Stack is the whole service on loopback: PostgreSQL, Temporal with its UI, the API with the hosted page and the
// dashboard, a worker, a demo merchant and a receiver. Each part can be killed and started again.
type Stack struct {
	options         Options
	metrics         map[string]int // ports by command
	pgBouncerPort   int
	mailPort        int // of Mailbox
	temporalProgram string
	lock            *os.File // of the directory

	Postgres  *pgtemp.Server // nil with Options.DatabaseURL
	PgBouncer *Process       // nil without Options.PgBouncer
	Temporal  *Temporal
	UI        *Process // nil with Options.NoUI
	API       *Process
	Worker    *Process
	Receiver  *Receiver
	Mailbox   *mailbox.Mailbox // the mail server
	Demo      Demo
	Live      *LiveDouble // nil without Options.LiveDouble

	// ReceiverLog has the requests to Receiver, and to other receivers that share the log.
	ReceiverLog *ReceiverLog
}

const database = "checkout"

// Start starts everything and returns when the API answers. If a part cannot start, it stops the others.
func Start(ctx context.Context, o Options) (*Stack, error) {
	s := &Stack{options: o}
	if err := s.start(ctx); err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

func (s *Stack) start(ctx context.Context) error {
	if err := s.choosePorts(); err != nil {
		return err
	}
	var err error
	if s.temporalProgram, err = TemporalProgram.Build(ctx, s.options.Out); err != nil {
		return err
	}
	if s.lock, err = openDataDir(ctx, s.options.Dir, s.options.Fresh); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{
		s.StartPostgres, s.StartTemporal, s.prepare, s.startPgBouncer, s.startUI, s.startReceiver, s.startLiveDouble,
		s.goLive, s.setup, s.StartWorker, s.StartAPI,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return os.WriteFile(s.EnvironmentFile(), []byte(strings.Join(s.OperatorsEnvironment(), "\n")+"\n"), 0o600)
}

// At describes a stack that another process runs in o.Dir with o.Ports: its addresses, its demo merchant, its database.
// It has no parts.
func At(o Options) (*Stack, error) {
	s := &Stack{options: o}
	text, err := os.ReadFile(s.EnvironmentFile())
	if err != nil {
		return nil, err
	}
	s.options.DatabaseURL = env.ToMap(strings.Fields(string(text)))["DATABASE_URL"]
	s.Demo, err = readDemo(filepath.Join(o.Dir, demoFile))
	return s, err
}

// Stop ends every part, the ones that depend on others first.
func (s *Stack) Stop() {
	_ = s.API.Stop(20 * time.Second) // Stop kills a part that does not end
	_ = s.Worker.Stop(20 * time.Second)
	s.Live.stop()
	if s.Receiver != nil {
		s.Receiver.Close()
	}
	if s.Mailbox != nil {
		s.Mailbox.Close()
	}
	if s.ReceiverLog != nil {
		_ = s.ReceiverLog.Close() // a check of the log finds a lost line
	}
	_ = s.UI.Stop(5 * time.Second)
	if s.Temporal != nil && s.options.Temporal == nil {
		_ = s.Temporal.Stop()
	}
	_ = s.PgBouncer.Stop(5 * time.Second)
	if s.Postgres != nil {
		_ = s.Postgres.Stop()
	}
	_ = s.lock.Close() // without a lock it only returns an error
}

// choosePorts fills in free ports and returns an error for taken ones, before anything starts.
func (s *Stack) choosePorts() error {
	p := &s.options.Ports
	free, err := pgtemp.FreePorts(12)
	if err != nil {
		return err
	}

	s.metrics = map[string]int{"api": free[8], "worker": free[9]}
	s.pgBouncerPort, s.mailPort = free[10], free[11]
	var chosen []int
	for i, port := range []struct {
		number *int
		flag   string
	}{
		{&p.API, "-api-port"}, {&p.Page, "-page-port"}, {&p.Dashboard, "-dashboard-port"}, {&p.Receiver, "-receiver-port"},
		{&p.UI, "-ui-port"}, {&p.Temporal, "-temporal-port"}, {&p.Postgres, "-postgres-port"},
		{&p.Health, "-health-port"},
	} {
		switch {
		case *port.number == 0:
			*port.number = free[i]
			continue
		case *port.number < 1 || *port.number > 65535:
			return fmt.Errorf("%s must be a port from 1 to 65535, or 0 for a free one", port.flag)
		case slices.Contains(chosen, *port.number):
			return fmt.Errorf("%s: port %d appears twice", port.flag, *port.number)
		}
		chosen = append(chosen, *port.number)
		if err := checkFree(*port.number, port.flag); err != nil {
			return err
		}
	}
	return nil
}

// Supervise restarts parts that end by themselves, until ctx ends.
func (s *Stack) Supervise(ctx context.Context) {
	for {
		var (
			name  string
			again func(context.Context) error
		)
		var postgres, ui <-chan struct{} // nil when the stack has no such part
		if s.Postgres != nil {
			postgres = s.Postgres.Done()
		}
		if s.UI != nil {
			ui = s.UI.Done()
		}
		select {
		case <-ctx.Done():
			return
		case <-postgres:
			name, again = "PostgreSQL", s.StartPostgres
		case <-ui:
			name, again = "Temporal's UI", s.startUI
		case <-s.Temporal.Done():
			name, again = "Temporal", s.Temporal.Start
		case <-s.Worker.Done():
			name, again = "the worker", s.StartWorker
		case <-s.API.Done():
			name, again = "the API", s.StartAPI
		}
		if ctx.Err() != nil {
			return
		}
		// A lost line of progress does no harm.
		_, _ = fmt.Fprintf(s.options.Out, "%s ended; starting it again\n", name)
		if err := again(ctx); err != nil && ctx.Err() == nil {
			_, _ = fmt.Fprintf(s.options.Out, "%s: %v\n", name, err)
			_ = pgtemp.Pause(ctx, time.Second) // the loop looks at ctx
		}
	}
}
