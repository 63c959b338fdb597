package devstack

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"example.com/checkout/deploy/program/app"
	"example.com/checkout/deploy/program/config"
	"example.com/checkout/deploy/program/service"
	"example.com/checkout/deploy/standin/mailbox"
	"example.com/checkout/storage"
	"example.com/checkout/storage/pgtemp"
	"github.com/jackc/pgx/v5"
)

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
	template, err := s.cluster()
	if err != nil {
		return err
	}
	started, err := pgtemp.Start(ctx, pgtemp.Options{
		Dir: filepath.Join(s.options.Dir, "postgres"), Port: s.options.Ports.Postgres, BinDir: binDir, Template: template,
	})
	if err != nil {
		return err // keep the ended server: Supervise sees it and tries again
	}
	s.Postgres = started
	return nil
}

// cluster returns the template of a stack's PostgreSQL: with the tables of Temporal and of the service.
func (s *Stack) cluster() (*pgtemp.Template, error) {
	digest, err := storage.SchemaDigest()
	if err != nil {
		return nil, err
	}
	return &pgtemp.Template{
		Name: "stack " + s.temporalProgram + " " + digest,
		Fill: func(ctx context.Context, server *pgtemp.Server) error {
			admin, err := url.Parse(server.URL("postgres"))
			if err != nil {
				return err
			}
			if err := ensureSchema(ctx, s.temporalProgram, admin); err != nil {
				return err
			}
			if err := server.CreateDatabase(ctx, database, ""); err != nil {
				return err
			}
			return storage.Migrate(ctx, server.URL(database))
		},
	}, nil
}

// StartTemporal starts Temporal after its databases were removed. It makes them again. After a Kill,
// Temporal.Start is enough.
func (s *Stack) StartTemporal(ctx context.Context) (err error) {
	if s.options.Temporal != nil {
		s.Temporal, err = s.options.Temporal.In(ctx, s.options.Namespace)
		return err
	}
	s.Temporal, err = StartTemporal(ctx, TemporalOptions{
		Program: s.temporalProgram, PostgresURL: s.url("postgres"), Dir: filepath.Join(s.options.Dir, "temporal"),
		FrontendPort: s.options.Ports.Temporal, Namespace: s.options.Namespace,
		MetricsAddress: s.options.TemporalMetrics, Security: s.options.Security,
	})
	return err
}

// LoseTemporal stops Temporal, drops its databases and starts it empty, with the schedules that "checkout setup" makes.
func (s *Stack) LoseTemporal(ctx context.Context) error {
	if err := s.Temporal.Stop(); err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, s.url("postgres"))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // nothing is left to do
	for _, schema := range schemas {
		if _, err := conn.Exec(ctx, "DROP DATABASE "+schema.database+" WITH (FORCE)"); err != nil {
			return err
		}
	}
	if err := s.StartTemporal(ctx); err != nil {
		return err
	}
	return s.setup(ctx)
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
	s.Demo, err = loadDemo(ctx, filepath.Join(s.options.Dir, demoFile), s.DatabaseURL(), s.ReceiverURL()+webhookPath)
	return err
}

// setup does what "checkout setup" does.
func (s *Stack) setup(ctx context.Context) error {
	cfg, err := config.LoadSetup(slices.Concat(s.Environment(), s.Live.environment("worker"), s.options.Env))
	if err != nil {
		return err
	}
	return service.Setup(ctx, cfg, func(string) {})
}

func (s *Stack) startReceiver(context.Context) (err error) {
	if s.ReceiverLog, err = OpenReceiverLog(s.ReceiverLogFile()); err != nil {
		return err
	}
	if s.Mailbox, err = mailbox.Start(loopback(s.mailPort)); err != nil {
		return err
	}
	if s.Receiver, err = StartReceiver(loopback(s.options.Ports.Receiver), s.Demo.Secret); err == nil {
		s.Receiver.LogTo(s.ReceiverLog)
		s.Receiver.ShowMails(s.Mailbox)
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
	return s.API.Ready(ctx, func(ctx context.Context) error { return app.Answers(ctx, s.APIURL()+"/readyz") })
}

// command starts a command of the production binary as a process of its own.
func (s *Stack) command(name string) (*Process, error) {
	return s.StartMore(name, name, "CHECKOUT_HEALTH_ADDRESS="+loopback(s.options.Ports.Health))
}

// StartMore starts one more process of a command, "api" or "worker", beside the stack's own. env holds the settings in
// which it differs, for example an API's addresses. Its log is Log(logName). The caller must end the process.
func (s *Stack) StartMore(command, logName string, env ...string) (*Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return Program{
		Name: logName, Path: self, Args: nil, Dir: s.options.Dir, Log: s.Log(logName),
		Env: slices.Concat(
			s.Environment(),
			[]string{"OTEL_EXPORTER_PROMETHEUS_PORT=" + strconv.Itoa(s.metrics[logName])}, // for a further process 0: any port
			s.Live.environment(command), s.through(command), s.options.Env, env, []string{CommandVariable + "=" + command},
		),
	}.Start()
}

// Log returns the path of the log of api, worker or a process of StartMore.
func (s *Stack) Log(name string) string { return filepath.Join(s.options.Dir, name+".log") }
