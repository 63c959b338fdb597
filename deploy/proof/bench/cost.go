package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/deploy/standin/devstack"
	"example.com/checkout/storage/pgtemp"
)

const (
	// Long enough for a customer who pays at once on a busy computer.
	costLifetime = 30 * time.Second
	// Temporal writes to its visibility table later, and an idle connection of PostgreSQL reports its
	// counters within 10 s.
	costSettles = 12 * time.Second
	costWarmUp  = 20 // sessions of each kind before the first count: they fill caches and the first pages
)

// transitions is the row of which the result speaks.
const transitions = "state transitions"

// counters are the rows that Temporal's server counts: each has a metric and, where it matters, a service.
var counters = []struct{ row, metric string }{
	// Each stored change of a run reports the run's number of changes: their count is what it costs.
	{transitions, "state_transition_count_count"},
	{"actions", "action"},
	{"frontend requests", "service_requests frontend"},
	{"history requests", "service_requests history"},
	{"matching requests", "service_requests matching"},
	{"persistence operations", "persistence_requests"},
	{"visibility operations", "visibility_persistence_requests"},
}

// The other rows. Those with a comma at the end are one row for each database or program.
const (
	wal      = "WAL KB"     // of all databases: PostgreSQL has one log
	walPages = "WAL, pages" // whole pages: PostgreSQL writes each once after a checkpoint
	commits  = "commits, "
	kept     = "kept KB, "
	cpuMS    = "CPU ms, "
)

var databases = []string{"temporal", "temporal_visibility", "checkout"}

// costRows returns the rows of the report in their order. Each is a counter that only grows, or a size.
func costRows() (rows []string) {
	for _, c := range counters {
		rows = append(rows, c.row)
	}
	rows = append(rows, wal, walPages)
	for _, of := range []struct {
		quantity string
		names    []string
	}{{commits, databases}, {kept, databases}, {cpuMS, programs}} {
		for _, name := range of.names {
			rows = append(rows, of.quantity+name)
		}
	}
	return rows
}

// cost counts the cost of a fixed number of sessions: some that expire unpaid, and some
// that are paid at once, with two deliveries each. It divides the differences of the counters of
// Temporal's server and of PostgreSQL by the number of sessions.
func cost(flags *flag.FlagSet) func(context.Context) (report, error) {
	n := flags.Int("sessions", 200, "sessions of each kind")
	clients := flags.Int("clients", 8, "how many customers come at a time")
	return func(ctx context.Context) (report, error) {
		ports, err := pgtemp.FreePorts(1)
		if err != nil {
			return report{}, err
		}
		address := fmt.Sprintf("127.0.0.1:%d", ports[0])
		r, err := newRig(ctx, devstack.Options{TemporalMetrics: address, SessionLifetime: costLifetime.String()})
		if err != nil {
			return report{}, err
		}
		defer r.stop()
		db, err := pgx.Connect(ctx, r.stack.DatabaseURL())
		if err != nil {
			return report{}, err
		}
		defer db.Close(context.WithoutCancel(ctx))
		m := &meter{rig: r, db: db, metrics: "http://" + address + "/metrics", clients: *clients}
		customers := r.newCustomers(*clients)
		go customers.listen(ctx)
		kinds := []kind{
			{"expires unpaid", func(ctx context.Context) error { _, err := customers.create(ctx); return err }},
			{"paid at once", customers.payOne},
		}
		for _, k := range kinds {
			if err := m.repeat(ctx, costWarmUp, k.do); err != nil {
				return report{}, err
			}
		}
		of := map[string]map[string]float64{}
		costs := table{columns: []string{"of one session"}}
		for _, k := range kinds {
			costs.columns = append(costs.columns, k.name)
			if of[k.name], err = m.measure(ctx, *n, k); err != nil {
				return report{}, fmt.Errorf("%s: %w", k.name, err)
			}
		}
		unpaid, paid := of[kinds[0].name], of[kinds[1].name]
		for _, row := range costRows() {
			if _, counted := paid[row]; counted {
				costs.add(row, []float64{unpaid[row]}, []float64{paid[row]})
			}
		}
		return report{Tables: []table{costs}, Result: fmt.Sprintf(
			"A paid session costs %.1f times the state transitions of one that expires.", paid[transitions]/unpaid[transitions],
		)}, nil
	}
}

// kind is a session's course.
type kind struct {
	name string
	do   func(context.Context) error
}

// meter reads the counters of a stack.
type meter struct {
	*rig
	db      *pgx.Conn
	metrics string // URL of the metrics of Temporal's server
	clients int
}

// measure returns what each of n sessions costs, by row.
func (m *meter) measure(ctx context.Context, n int, k kind) (map[string]float64, error) {
	fmt.Fprintf(os.Stderr, "%d sessions: %s\n", n, k.name)
	before, err := m.read(ctx)
	if err != nil {
		return nil, err
	}
	processes := m.processes()
	if err := m.repeat(ctx, n, k.do); err != nil {
		return nil, err
	}
	used, err := m.read(ctx)
	for row := range used {
		used[row] = (used[row] - before[row]) / float64(n)
	}
	for program, cpu := range cpuSince(processes, m.processes()) {
		used[cpuMS+program] = ms(cpu) / float64(n)
	}
	return used, err
}

// repeat runs n sessions and waits until all have ended and every counter shows it.
func (m *meter) repeat(ctx context.Context, n int, do func(context.Context) error) error {
	var started atomic.Int64
	more := func() bool { return started.Add(1) <= int64(n) }
	if _, err := load(ctx, do, m.clients, more); err != nil {
		return err
	}
	for open := true; open; {
		err := m.db.QueryRow(ctx, `SELECT EXISTS (SELECT FROM checkout_session WHERE status = 'pending')`).Scan(&open)
		if err != nil {
			return err
		}
		if err := pgtemp.Pause(ctx, time.Second); err != nil {
			return err
		}
	}
	return pgtemp.Pause(ctx, costSettles)
}

// read returns the counters now, by row.
func (m *meter) read(ctx context.Context) (map[string]float64, error) {
	answer, err := http.DefaultClient.Do(send(ctx, http.MethodGet, m.metrics, nil))
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	got, err := temporalCounters(answer.Body)
	if err != nil {
		return nil, err
	}
	const kb = 1024
	var bytes, pages float64
	if err := m.db.QueryRow(ctx, `SELECT pg_current_wal_lsn() - '0/0', wal_fpi FROM pg_stat_wal`).
		Scan(&bytes, &pages); err != nil {
		return nil, err
	}
	got[wal], got[walPages] = bytes/kb, pages
	for _, database := range databases {
		var committed, size float64
		if err := m.db.QueryRow(ctx, `
			SELECT xact_commit, pg_database_size(datname) FROM pg_stat_database WHERE datname = $1`, database).
			Scan(&committed, &size); err != nil {
			return nil, fmt.Errorf("database %s: %w", database, err)
		}
		got[commits+database], got[kept+database] = committed, size/kb
	}
	return got, nil
}

var (
	sampleLine   = regexp.MustCompile(`^(\w+)\{(.*)\} (\S+)$`)
	serviceLabel = regexp.MustCompile(`(?:^|,)service_name="(\w+)"`)
)

// temporalCounters returns the rows of counters from metrics in Prometheus' text form.
func temporalCounters(metrics io.Reader) (map[string]float64, error) {
	got := map[string]float64{}
	lines := bufio.NewScanner(metrics)
	for lines.Scan() {
		sample := sampleLine.FindStringSubmatch(lines.Text())
		if sample == nil {
			continue
		}
		ofService := ""
		if service := serviceLabel.FindStringSubmatch(sample[2]); service != nil {
			ofService = sample[1] + " " + service[1]
		}
		for _, c := range counters {
			if c.metric != sample[1] && c.metric != ofService {
				continue
			}
			value, err := strconv.ParseFloat(sample[3], 64)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", sample[1], err)
			}
			got[c.row] += value
		}
	}
	return got, lines.Err()
}
