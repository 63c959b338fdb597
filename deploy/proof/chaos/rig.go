package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"go.temporal.io/sdk/client"

	"example.com/checkout/deploy/program/config"
	"example.com/checkout/deploy/standin/chains"
	"example.com/checkout/deploy/standin/devstack"
	"example.com/checkout/storage/pgtemp"
)

// Times of the stack under test. They are so short that a run of one minute sees every retry. The
// sessions of the first API, half of all, live for shortLifetime.
var (
	retrySchedule = config.ShortSchedule()
	shortLifetime = 8 * time.Second
)

// rig is the stack under test: two API and two worker processes, PostgreSQL and
// Temporal, and a link on each way between them.
type rig struct {
	stack       *devstack.Stack
	databaseURL string
	apis        []string // addresses
	pages       []string
	parts       []*part
	links       []*link
	fees        *chains.FeeMarket // of Bitcoin; nil without live mode
	temporal    client.Client     // a direct connection, not through a link
	out         io.Writer
}

// part is a piece of the rig that a fault can break. The fault locks it.
type part struct {
	sync.Mutex
	name  string // "API 1"
	kind  string // "api", "worker", "temporal", "postgres", "acquirer", or a network with its node
	pid   func() int
	done  func() <-chan struct{}
	kill  func()
	stop  func()
	start func(context.Context) error

	metrics string // address; "" for parts that are not processes of the service
}

// startRig starts a rig with its data in dir, with a simulated live mode or without.
func startRig(ctx context.Context, dir string, live bool, out io.Writer) (_ *rig, err error) {
	r := &rig{out: out}
	defer func() {
		if err != nil {
			r.close()
		}
	}()
	at, through, err := r.startLinks(live)
	if err != nil {
		return nil, err
	}
	r.stack, err = devstack.Start(ctx, devstack.Options{
		Dir: dir, NoUI: true, Out: out, Ports: at, Through: through, LiveDouble: live, Float: float, Bitcoin: time.Second,
		RetrySchedule: retrySchedule, SessionLifetime: shortLifetime.String(),
		Env: []string{
			"OTEL_METRICS_EXPORTER=prometheus",
			"CHECKOUT_RECONCILE_INTERVAL=5s", "CHECKOUT_TEST_RATE_LIMIT=100000", "CHECKOUT_BAD_KEY_RATE_LIMIT=100000",
			"CHECKOUT_LIVE_RATE_LIMIT=100000",
			"CHECKOUT_PAGE_RATE_LIMIT=100000", "CHECKOUT_FORM_RATE_LIMIT=100000", // all customers come from one address
		},
	})
	if err != nil {
		return nil, err
	}
	r.databaseURL = r.stack.DatabaseURL()
	r.apis, r.pages = []string{r.stack.APIURL()}, []string{r.stack.PageURL()}
	r.addStackParts()
	if live {
		if r.stack.Live.Bitcoin == nil {
			return nil, chains.ErrNoKnots
		}
		r.addLiveParts()
	}
	if err := r.addMore(ctx); err != nil {
		return nil, err
	}
	r.temporal, err = r.stack.Temporal.Dial(ctx)
	return r, err
}

// way is what a link connects: the port of a server, and the link's own. A port of 0 is chosen.
type way struct {
	name         string
	server, link *int
}

// startLinks starts a link from each command to each server that it uses. It returns the ports of the
// servers and of the links.
func (r *rig) startLinks(live bool) (at devstack.Ports, through map[string]devstack.Ports, err error) {
	through = map[string]devstack.Ports{}
	market := 0
	if live {
		if at.Bitcoin, err = freePort(); err != nil {
			return at, nil, err
		}
		r.fees = chains.NewFeeMarket("http://" + loopback(at.Bitcoin))
		r.fees.Set(usualRate)
		market = r.fees.Port()
	}
	for _, command := range []string{"api", "worker"} {
		var own devstack.Ports
		ways := []way{{"temporal", &at.Temporal, &own.Temporal}, {"postgres", &at.Postgres, &own.Postgres}}
		if live {
			ways = append(ways, way{"acquirer", &at.Acquirer, &own.Acquirer}, way{"ethereum", &at.Ethereum, &own.Ethereum},
				way{"bitcoin", &market, &own.Bitcoin})
		}
		if live && command == "worker" { // only a worker signs
			ways = append(ways, way{"signer", &at.Ethereum, &own.Signer})
		}
		for _, w := range ways {
			ports, err := pgtemp.FreePorts(2)
			if err != nil {
				return at, nil, err
			}
			*w.link, *w.server = ports[0], cmp.Or(*w.server, ports[1])
			l, err := startLink(command+"-"+w.name, loopback(*w.link), loopback(*w.server))
			if err != nil {
				return at, nil, err
			}
			r.links = append(r.links, l)
		}
		through[command] = own
	}
	return at, through, nil
}

func (r *rig) link(name string) *link {
	return r.links[slices.IndexFunc(r.links, func(l *link) bool { return l.name == name })]
}

// freePort returns a port on loopback at which nobody listens.
func freePort() (int, error) {
	ports, err := pgtemp.FreePorts(1)
	if err != nil {
		return 0, err
	}
	return ports[0], nil
}

func freeAddress() (string, error) {
	port, err := freePort()
	return loopback(port), err
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// processPart returns the part of an API or a worker. start sets p.
func processPart(name, kind, metrics string, p **devstack.Process, start func(context.Context) error) *part {
	return &part{
		name: name, kind: kind, metrics: metrics, start: start,
		pid: func() int { return (*p).PID() }, done: func() <-chan struct{} { return (*p).Done() },
		kill: func() { (*p).Kill() }, stop: func() { _ = (*p).Stop(20 * time.Second) },
		// Stop kills a process that does not end
	}
}

func (r *rig) addStackParts() {
	s := r.stack
	r.parts = append(r.parts,
		processPart("API 1", "api", s.MetricsAddress("api"), &s.API, s.StartAPI),
		processPart("worker 1", "worker", s.MetricsAddress("worker"), &s.Worker, s.StartWorker),
		&part{
			name: "Temporal", kind: "temporal", pid: s.Temporal.PID, done: s.Temporal.Done, kill: s.Temporal.Kill,
			stop: func() { _ = s.Temporal.Stop() }, start: s.Temporal.Start, // Stop kills a process that does not end
		},
		&part{
			name: "PostgreSQL", kind: "postgres", start: s.StartPostgres,
			pid: func() int { return s.Postgres.PID() }, done: func() <-chan struct{} { return s.Postgres.Done() },
			kill: func() { s.Postgres.Kill() }, stop: func() { // "immediate": no checkpoint, every backend ends at once
				_ = syscall.Kill(s.Postgres.PID(), syscall.SIGQUIT) // an error means that it has already ended
				<-s.Postgres.Done()
			},
		},
	)
}

// addMore adds a second API, whose sessions live for one hour, and a second worker.
func (r *rig) addMore(ctx context.Context) error {
	ports, err := pgtemp.FreePorts(5)
	if err != nil {
		return err
	}
	env := []string{
		"CHECKOUT_API_ADDRESS=" + loopback(ports[0]), "CHECKOUT_PAGE_ADDRESS=" + loopback(ports[1]),
		"CHECKOUT_DASHBOARD_ADDRESS=" + loopback(ports[2]), "CHECKOUT_TEST_SESSION_LIFETIME=1h",
	}
	for i, command := range []string{"api", "worker"} {
		var process *devstack.Process
		name := strings.Replace(command, "api", "API", 1) + " 2"
		p := processPart(name, command, loopback(ports[3+i]), &process, func(context.Context) (err error) {
			process, err = r.stack.StartMore(
				command, command+"2", append(env, "OTEL_EXPORTER_PROMETHEUS_PORT="+strconv.Itoa(ports[3+i]))...)
			return err
		})
		if err := p.start(ctx); err != nil {
			return err
		}
		r.parts = append(r.parts, p)
	}
	r.apis, r.pages = append(r.apis, "http://"+loopback(ports[0])), append(r.pages, "http://"+loopback(ports[1]))
	return nil
}

// startAgain repeats the start of a part until it succeeds: for example, PostgreSQL may be away when
// Temporal starts.
func (r *rig) startAgain(ctx context.Context, p *part) {
	for ctx.Err() == nil {
		limited, cancel := context.WithTimeout(ctx, 45*time.Second)
		err := p.start(limited)
		cancel()
		if err == nil {
			return
		}
		if ctx.Err() == nil && !strings.Contains(err.Error(), "not usable") {
			first, _, _ := strings.Cut(err.Error(), "\n")
			// A lost line of progress does no harm.
			_, _ = fmt.Fprintf(r.out, "%s does not start yet: %s\n", p.name, first)
		}
		pause(ctx, 500*time.Millisecond)
	}
}

// watch restarts parts that end without a fault, until ctx ends. It reports each one to ended.
func (r *rig) watch(ctx context.Context, ended func(name string)) {
	for ; ctx.Err() == nil; pause(ctx, 200*time.Millisecond) {
		for _, p := range r.parts {
			if !p.TryLock() {
				continue
			}
			if p.over() && ctx.Err() == nil {
				ended(p.name)
				r.startAgain(ctx, p)
			}
			p.Unlock()
		}
	}
}

func (p *part) over() bool {
	select {
	case <-p.done():
		return true
	default:
		return false
	}
}

// suspend stops the processes of a part until resume.
func (p *part) suspend() (resume func()) {
	pids := family(p.pid())
	send := func(s syscall.Signal) {
		for _, pid := range pids {
			_ = syscall.Kill(pid, s) // an error means that the child has ended
		}
	}
	send(syscall.SIGSTOP)
	return func() { send(syscall.SIGCONT) }
}

// await locks a part once no fault has it.
func (p *part) await(ctx context.Context) error {
	for !p.TryLock() {
		if pause(ctx, 50*time.Millisecond); ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

// family returns a process and its children: PostgreSQL's children do its work.
func family(pid int) []int {
	pids := []int{pid}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return pids
	}
	for _, word := range strings.Fields(string(text)) {
		if child, err := strconv.Atoi(word); err == nil {
			pids = append(pids, child)
		}
	}
	return pids
}

// query reads one value from PostgreSQL over a direct connection.
func query[T any](ctx context.Context, r *rig, sql string, args ...any) (got T, err error) {
	all, err := collect(ctx, r, pgx.RowTo[T], sql, args...)
	if err != nil || len(all) == 0 {
		return got, cmp.Or(err, pgx.ErrNoRows)
	}
	return all[0], nil
}

// queryAll is query for rows whose columns are the fields of T.
func queryAll[T any](ctx context.Context, r *rig, sql string, args ...any) ([]T, error) {
	return collect(ctx, r, pgx.RowToStructByPos[T], sql, args...)
}

func collect[T any](ctx context.Context, r *rig, scan pgx.RowToFunc[T], sql string, args ...any) ([]T, error) {
	conn, err := pgx.Connect(ctx, r.databaseURL)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // nothing was written
	rows, _ := conn.Query(ctx, sql, args...)                      // CollectRows returns the error
	return pgx.CollectRows(rows, scan)
}

func (r *rig) close() {
	if r.temporal != nil {
		r.temporal.Close()
	}
	for _, p := range r.parts {
		if strings.HasSuffix(p.name, " 2") {
			p.stop()
		}
	}
	if r.stack != nil {
		r.stack.Stop()
	}
	for _, l := range r.links {
		l.close()
	}
	if r.fees != nil {
		r.fees.Close()
	}
}
