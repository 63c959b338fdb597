package devstack

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"

	"example.com/checkout/storage"
	"example.com/checkout/storage/pgtemp"
	"example.com/checkout/workflows"
)

// Ports are the ports of a stack on 127.0.0.1; 0 means a free port.
type Ports struct {
	API, Page, Dashboard, Receiver, UI, Temporal, Postgres int
}

// Options describe the stack to start.
type Options struct {
	Dir         string // keeps all data between starts
	Fresh       bool   // start empty: remove what an earlier start left in Dir
	Ports       Ports
	DatabaseURL string // an existing database instead of a private PostgreSQL; its role may create databases
	// SessionLifetime and RetrySchedule shorten the times of test mode, in the
	// form of CHECKOUT_TEST_SESSION_LIFETIME and CHECKOUT_TEST_RETRY_SCHEDULE.
	SessionLifetime, RetrySchedule string
	NoUI                           bool
	Namespace                      string // in Temporal; "": the service's own default
	// Through has the ports of proxies for a command, "api" or "worker": its processes reach
	// Temporal and PostgreSQL through them. The caller runs the proxies. 0 or no entry means a
	// direct connection.
	Through map[string]Ports
	Env     []string  // more settings for the API and the worker
	Out     io.Writer // progress
}

// Stack is the whole service on loopback: PostgreSQL, Temporal with its UI, the
// API with the hosted page and the dashboard, a worker, a demo merchant and a receiver. Each part
// can be killed and started again.
type Stack struct {
	options         Options
	metrics         map[string]int // ports by command
	temporalProgram string
	dir             *dataDir

	Postgres *pgtemp.Server // nil with Options.DatabaseURL
	Temporal *Temporal
	UI       *Process // nil with Options.NoUI
	API      *Process
	Worker   *Process
	Receiver *Receiver
	Demo     Demo

	// ReceiverLog has the requests to Receiver, and to other receivers that share the log.
	ReceiverLog *ReceiverLog
}

const database = "checkout"

// Start starts everything and returns when the API answers. If a part cannot start, it stops the
// others.
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
	if s.temporalProgram, err = BuildTemporal(ctx, s.options.Out); err != nil {
		return err
	}
	if s.dir, err = openDataDir(ctx, s.options.Dir, s.options.Fresh); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{
		s.StartPostgres, s.startTemporal, s.prepare, s.startUI, s.startReceiver, s.StartWorker, s.StartAPI,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return os.WriteFile(s.EnvironmentFile(), []byte(strings.Join(s.Environment(), "\n")+"\n"), 0o600)
}

// EnvironmentFile returns the path of a file with Environment, one setting a line. It is for
// commands of the production binary in another shell.
func (s *Stack) EnvironmentFile() string { return filepath.Join(s.options.Dir, "environment") }

// choosePorts fills in free ports and returns an error for taken ones, before anything starts.
func (s *Stack) choosePorts() error {
	p := &s.options.Ports
	free, err := Free(9)
	if err != nil {
		return err
	}

	s.metrics = map[string]int{"api": free[7], "worker": free[8]}
	var chosen []int
	for i, port := range []struct {
		number *int
		flag   string
	}{
		{&p.API, "-api-port"}, {&p.Page, "-page-port"}, {&p.Dashboard, "-dashboard-port"}, {&p.Receiver, "-receiver-port"},
		{&p.UI, "-ui-port"}, {&p.Temporal, "-temporal-port"}, {&p.Postgres, "-postgres-port"},
	} {
		switch {
		case *port.number == 0:
			*port.number = free[i]
			continue
		case *port.number < 1 || *port.number > 65535:
			return fmt.Errorf("%s must be a port from 1 to 65535, or 0 for a free one", port.flag)
		case slices.Contains(chosen, *port.number):
			return fmt.Errorf("%s: port %d is there twice", port.flag, *port.number)
		}
		chosen = append(chosen, *port.number)
		if err := CheckFree(loopback(*port.number), port.flag); err != nil {
			return err
		}
	}
	return nil
}

// StartPostgres starts PostgreSQL, again after a Kill.
func (s *Stack) StartPostgres(ctx context.Context) error {
	if s.options.DatabaseURL != "" {
		return nil
	}
	binDir, err := EnsurePostgres(ctx, s.options.Out)
	if err != nil {
		return err
	}
	if s.Postgres != nil {
		s.Postgres.Kill() // a server that ended by itself still holds the directory
	}
	started, err := pgtemp.Start(ctx, pgtemp.Options{
		Dir: filepath.Join(s.options.Dir, "postgres"), Port: s.options.Ports.Postgres, BinDir: binDir,
	})
	if err != nil {
		return err // keep the ended server: Supervise sees it and tries again
	}
	s.Postgres = started
	return nil
}

// DatabaseURL returns the URL of the service's own database. It holds a password.
func (s *Stack) DatabaseURL() string { return s.url(database) }

// url returns the URL of a database of the private PostgreSQL. With an existing PostgreSQL, it is
// Options.DatabaseURL.
func (s *Stack) url(name string) string {
	if s.Postgres == nil {
		return s.options.DatabaseURL
	}
	return s.Postgres.URL(name)
}

func (s *Stack) startTemporal(ctx context.Context) (err error) {
	attributes := map[string]enumspb.IndexedValueType{}
	for _, key := range workflows.SearchAttributes {
		attributes[key.GetName()] = enumspb.INDEXED_VALUE_TYPE_KEYWORD
	}
	s.Temporal, err = StartTemporal(ctx, TemporalOptions{
		Program: s.temporalProgram, PostgresURL: s.url("postgres"), Dir: filepath.Join(s.options.Dir, "temporal"),
		FrontendPort: s.options.Ports.Temporal, Namespace: s.options.Namespace, SearchAttributes: attributes,
	})
	return err
}

// prepare creates the service's database, its schema and the demo merchant.
func (s *Stack) prepare(ctx context.Context) error {
	if s.Postgres != nil {
		if err := s.Postgres.CreateDatabase(ctx, database, ""); err != nil {
			return err
		}
	}
	if err := storage.Migrate(ctx, s.DatabaseURL()); err != nil {
		return err
	}
	var err error
	s.Demo, err = loadDemo(
		ctx, filepath.Join(s.options.Dir, "demo.json"), s.DatabaseURL(), s.ReceiverURL()+webhookPath,
	)
	return err
}

func (s *Stack) startUI(ctx context.Context) (err error) {
	if s.options.NoUI {
		return nil
	}
	s.UI, err = StartUI(ctx, UIOptions{
		Program: s.temporalProgram, Temporal: s.Temporal.Address(), Namespace: s.Temporal.Namespace(),
		Dir: filepath.Join(s.options.Dir, "temporal-ui"), Port: s.options.Ports.UI,
	})
	return err
}

func (s *Stack) startReceiver(context.Context) (err error) {
	if s.ReceiverLog, err = OpenReceiverLog(s.ReceiverLogFile()); err != nil {
		return err
	}
	if s.Receiver, err = StartReceiver(loopback(s.options.Ports.Receiver), s.Demo.Secret); err == nil {
		s.Receiver.LogTo(s.ReceiverLog)
	}
	return err
}

const receiverLog = "receiver.jsonl"

// ReceiverLogFile returns the path of ReceiverLog.
func (s *Stack) ReceiverLogFile() string { return filepath.Join(s.options.Dir, receiverLog) }

// StartWorker starts the worker, again after a Kill.
func (s *Stack) StartWorker(context.Context) (err error) {
	s.Worker, err = s.command("worker")
	return err
}

// StartAPI starts the API, again after a Kill, and waits until it is ready.
func (s *Stack) StartAPI(ctx context.Context) (err error) {
	if s.API, err = s.command("api"); err != nil {
		return err
	}
	for get(ctx, s.APIURL()+"/readyz") != nil {
		select {
		case <-s.API.Done():
			return s.API.Err()
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(50 * time.Millisecond):
		}
	}
	return nil
}

// command starts a command of the production binary as a process of its own.
func (s *Stack) command(name string) (*Process, error) { return s.StartMore(name, name) }

// StartMore starts one more process of a command, "api" or "worker", beside the stack's own. env
// holds the settings in which it differs, for example an API's addresses. Its log is Log(logName).
// The caller must end the process.
func (s *Stack) StartMore(command, logName string, env ...string) (*Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return Program{
		Name: logName, Path: self, Args: nil, Dir: s.options.Dir, Log: s.Log(logName),
		Env: slices.Concat(
			s.Environment(),
			[]string{
				"OTEL_EXPORTER_PROMETHEUS_PORT=" + strconv.Itoa(s.metrics[logName]),
			}, // for a further process 0: any port
			s.through(command),
			s.options.Env,
			env,
			[]string{commandVariable + "=" + command},
		),
	}.Start()
}

// through returns the settings that make a command's processes use proxies.
func (s *Stack) through(command string) []string {
	var env []string
	if port := s.options.Through[command].Temporal; port != 0 {
		env = append(env, "TEMPORAL_ADDRESS="+loopback(port))
	}
	if u, err := url.Parse(s.DatabaseURL()); err == nil && s.options.Through[command].Postgres != 0 {
		u.Host = loopback(s.options.Through[command].Postgres)
		env = append(env, "DATABASE_URL="+u.String())
	}
	return env
}

// MetricsAddress returns the address where Prometheus finds the metrics of api or worker when
// OTEL_METRICS_EXPORTER is "prometheus".
func (s *Stack) MetricsAddress(name string) string { return loopback(s.metrics[name]) }

// Log returns the path of the log of api, worker or a process of StartMore.
func (s *Stack) Log(name string) string { return filepath.Join(s.options.Dir, name+".log") }

// Environment returns the configuration of every command of the production binary in
// this stack. It holds secrets.
func (s *Stack) Environment() []string {
	environment := []string{
		"DATABASE_URL=" + s.DatabaseURL(),
		"CHECKOUT_MASTER_KEYS=" + s.Demo.MasterKeys,
		"TEMPORAL_ADDRESS=" + s.Temporal.Address(),
		"TEMPORAL_NAMESPACE=" + s.Temporal.Namespace(),
		"CHECKOUT_API_ADDRESS=" + loopback(s.options.Ports.API),
		"CHECKOUT_PAGE_ADDRESS=" + loopback(s.options.Ports.Page),
		"CHECKOUT_PAGE_URL=" + s.PageURL(),
		"CHECKOUT_DASHBOARD_ADDRESS=" + loopback(s.options.Ports.Dashboard),
		"CHECKOUT_DASHBOARD_URL=" + s.DashboardURL(),
		"CHECKOUT_TEST_ALLOW_LOOPBACK_WEBHOOKS=true",
	}
	if !s.options.NoUI {
		environment = append(environment, "CHECKOUT_TEMPORAL_UI_URL="+s.UIURL())
	}
	if s.options.SessionLifetime != "" {
		environment = append(environment, "CHECKOUT_TEST_SESSION_LIFETIME="+s.options.SessionLifetime)
	}
	if s.options.RetrySchedule != "" {
		environment = append(environment, "CHECKOUT_TEST_RETRY_SCHEDULE="+s.options.RetrySchedule)
	}
	return environment
}

// APIURL returns the address of the REST API.
func (s *Stack) APIURL() string { return "http://" + loopback(s.options.Ports.API) }

// PageURL returns the address of the hosted page.
func (s *Stack) PageURL() string { return "http://" + loopback(s.options.Ports.Page) }

// DashboardURL returns the address of the dashboard.
func (s *Stack) DashboardURL() string { return "http://" + loopback(s.options.Ports.Dashboard) }

// ReceiverURL returns the address of the sample receiver.
func (s *Stack) ReceiverURL() string { return "http://" + loopback(s.options.Ports.Receiver) }

// UIURL returns the address of Temporal's UI.
func (s *Stack) UIURL() string { return "http://" + loopback(s.options.Ports.UI) }

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
			_ = pause(ctx, time.Second) // the loop looks at ctx
		}
	}
}

// Stop ends every part, the ones that depend on others first.
func (s *Stack) Stop() {
	if s.API != nil {
		_ = s.API.Stop(20 * time.Second) // Stop kills a part that does not end
	}
	if s.Worker != nil {
		_ = s.Worker.Stop(20 * time.Second)
	}
	if s.Receiver != nil {
		s.Receiver.Close()
	}
	if s.ReceiverLog != nil {
		_ = s.ReceiverLog.Close() // a check of the log finds a lost line
	}
	if s.UI != nil {
		_ = s.UI.Stop(5 * time.Second)
	}
	if s.Temporal != nil {
		_ = s.Temporal.Stop()
	}
	if s.Postgres != nil {
		_ = s.Postgres.Stop()
	}
	if s.dir != nil {
		s.dir.close()
	}
}

// Curl returns a command line that creates a session.
func (s *Stack) Curl() string {
	return strings.Join([]string{
		"curl -s " + s.APIURL() + "/v1/checkout",
		"-H 'Authorization: Bearer " + s.Demo.APIKey + "'",
		"-H 'Content-Type: application/json'",
		`-d '{"amount": 10.50, "currency": "EUR", "payout_currency": "USDC", "metadata": {"order_id": "order-` +
			strconv.FormatInt(time.Now().Unix(), 10) + `"}}'`,
	}, " \\\n  ")
}
