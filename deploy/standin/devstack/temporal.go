package devstack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"

	"example.com/checkout/deploy/program/config"
	"example.com/checkout/deploy/standin/build"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/runs"
)

// TemporalProgram is Temporal's server, its SQL tool and its UI in one program. The libraries of clouds are 700 of its
// 1,800 packages and most of its size, and nothing of them runs on one computer.
var TemporalProgram = build.Program{
	Name: "temporal", Title: "Temporal", Takes: "some minutes",
	Module: "deploy/standin/temporal", Package: ".", Files: []string{"go.mod", "go.sum", "main.go"},
	Without: build.Without{
		Libraries: []string{"cloud.google.com/", "github.com/aws/", "google.golang.org/api/", "k8s.io/", "modernc.org/"},
		Stubs: map[string]string{
			"go.temporal.io/auto-scaled-workers/wci/workflow/compute_provider":               "_without/compute_provider.go",
			"go.temporal.io/server/common/archiver/gcloud/connector":                         "_without/connector.go",
			"go.temporal.io/server/common/archiver/s3store":                                  "_without/s3store.go",
			"go.temporal.io/server/common/persistence/sql/sqlplugin/sqlite":                  "_without/sqlite.go",
			"go.temporal.io/server/common/persistence/visibility/store/elasticsearch/client": "_without/client.go",
		},
	},
}

const (
	// This includes the recovery after a kill -9. Measured: about 4 s, and 30 s beside many busy processes.
	temporalPatience = 5 * time.Minute
	// The server finishes its current work and announces its leave to its members.
	temporalStopPatience = 20 * time.Second
)

// TemporalOptions describe the Temporal server to start.
type TemporalOptions struct {
	Program      string // built of TemporalProgram
	PostgresURL  string // postgres:// URL of a role that may create databases; no spaces in its password
	Dir          string // for configuration, ports and log; made when missing
	FrontendPort int    // on 127.0.0.1; 0 keeps the port of the last start in Dir, or chooses a free one
	Namespace    string // empty: that of the service's configuration, "checkout"

	MetricsAddress string            // where Prometheus finds the server's own metrics; "": nowhere
	Security       *TemporalSecurity // nil: everybody who reaches the server may do everything
}

// Temporal is a Temporal server, all its services in one process. Its methods may be called from several goroutines.
type Temporal struct {
	options TemporalOptions
	ports   temporalPorts
	config  string // path

	mu      sync.Mutex
	process *Process
}

// StartTemporal starts Temporal's server on PostgreSQL and returns when a worker or client can use
// the namespace and all search attributes. It creates missing databases, tables, namespace and
// attributes, and keeps existing ones. So it works for a new directory, and after a crash of
// Temporal, of PostgreSQL or of this process. ctx limits only the start.
func StartTemporal(ctx context.Context, o TemporalOptions) (*Temporal, error) {
	t, err := prepareTemporal(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("start Temporal: %w", err)
	}
	if err := t.Start(ctx); err != nil {
		return nil, err
	}
	return t, nil
}

// prepareTemporal chooses ports, brings the databases up to date and writes the configuration.
func prepareTemporal(ctx context.Context, o TemporalOptions) (*Temporal, error) {
	o.Namespace = cmp.Or(o.Namespace, "checkout")
	admin, err := url.Parse(o.PostgresURL)
	if err != nil || admin.User == nil || admin.Host == "" {
		return nil, errors.New("PostgresURL is not a postgres:// URL with user and host") // err would show the password
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, err
	}
	ports, err := choosePorts(filepath.Join(o.Dir, "ports.json"), o.services(), o.FrontendPort)
	if err != nil {
		return nil, err
	}
	config, err := writeTemporalConfig(o, ports, admin)
	if err != nil {
		return nil, err
	}
	if err := ensureSchema(ctx, o.Program, admin); err != nil {
		return nil, err
	}
	return &Temporal{options: o, ports: ports, config: config}, nil
}

// Start starts the server again after Stop or Kill, on the same ports and data, and returns when it
// is usable. If the server still runs, it returns an error.
func (t *Temporal) Start(ctx context.Context) (err error) {
	defer checkout.Wrap(&err, "start Temporal")
	ctx, cancel := context.WithTimeoutCause(ctx, temporalPatience, fmt.Errorf("not usable after %v", temporalPatience))
	defer cancel()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.process != nil && t.process.Err() == nil {
		return errors.New("it runs already")
	}
	if err := checkFree(t.ports.Frontend, "-temporal-port"); err != nil {
		return err
	}
	process, err := Program{
		Name: "temporal", Path: t.options.Program, Args: []string{"server", t.config}, Dir: t.options.Dir,
		Log: filepath.Join(t.options.Dir, "temporal.log"),
	}.Start()
	if err != nil {
		return err
	}
	// The last log lines of a server that ends early say more than a time-out.
	starting, ended := context.WithCancelCause(ctx)
	defer ended(nil)
	go func() { <-process.Done(); ended(process.Err()) }()
	if err := t.ensureNamespace(starting); err != nil {
		err = cmp.Or(context.Cause(starting), err) // before the kill, which causes another one
		process.Kill()
		return err
	}
	t.process = process
	return nil
}

// ensureNamespace does what "checkout setup" does, and waits until the server is usable.
func (t *Temporal) ensureNamespace(ctx context.Context) error {
	options, err := t.ClientOptions()
	if err != nil {
		return err
	}
	temporal, err := client.NewLazyClient(options)
	if err != nil {
		return err
	}
	defer temporal.Close()
	return (&runs.Client{Temporal: temporal}).EnsureNamespace(ctx, t.options.Namespace)
}

// In returns the same server with another namespace, which it creates.
func (t *Temporal) In(ctx context.Context, namespace string) (*Temporal, error) {
	other := &Temporal{options: t.options, ports: t.ports, config: t.config, process: t.current()}
	other.options.Namespace = namespace
	if err := other.ensureNamespace(ctx); err != nil {
		return nil, fmt.Errorf("namespace %s: %w", namespace, err)
	}
	return other, nil
}

// ClientOptions returns the options of a client that may do everything and logs nothing.
func (t *Temporal) ClientOptions() (client.Options, error) {
	cfg, err := config.LoadTemporal(t.environment())
	if err != nil {
		return client.Options{}, err
	}
	options, err := cfg.Options()
	options.Logger = log.NewStructuredLogger(slog.New(slog.DiscardHandler))
	return options, err
}

// Dial connects a client that may do everything. The caller must close it.
func (t *Temporal) Dial(ctx context.Context) (client.Client, error) {
	options, err := t.ClientOptions()
	if err != nil {
		return nil, err
	}
	return client.DialContext(ctx, options)
}

// Address returns the frontend's host:port for clients and workers.
func (t *Temporal) Address() string { return loopback(t.ports.Frontend) }

// Namespace returns the namespace that was registered.
func (t *Temporal) Namespace() string { return t.options.Namespace }

// PID returns the process id of the running, or last, server.
func (t *Temporal) PID() int { return t.current().PID() }

// Done returns a channel that is closed when the running server has ended. After Start it is another channel.
func (t *Temporal) Done() <-chan struct{} { return t.current().Done() }

// Err returns how the server ended, with the last lines of its log; nil while it runs.
func (t *Temporal) Err() error { return t.current().Err() }

// Kill ends the server with SIGKILL, as a crash would.
func (t *Temporal) Kill() { t.current().Kill() }

// Stop asks the server to end. After 20 s it kills the server and returns an error.
func (t *Temporal) Stop() error { return t.current().Stop(temporalStopPatience) }

func (t *Temporal) current() *Process {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.process
}
