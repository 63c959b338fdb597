package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"example.com/checkout/deploy/program/config"
	"example.com/checkout/deploy/proof/chaos/invariant"
)

const runUsage = `usage: go run ./deploy/proof/chaos run [flags]

Starts a separate stack, breaks it at random while merchants and customers work on it, waits for rest, and checks
every invariant. deploy/proof/chaos/README.md has the faults. The data of a run with violations is kept and named.

Exit status: 0 every invariant holds, 1 there are violations, 2 it could not be found out.

`

// runOptions are the flags of run.
type runOptions struct {
	seed             uint64
	sessions, faults int
	deliveries       int
	live             bool
	payouts          int // in live mode
	restores         int // likewise
	limit            time.Duration
	every            time.Duration
	kinds, moves     []faultKind // of faults, and of the enemy
	customers        int
	within, wait     time.Duration
	histories        int
	dir              string
}

// parseRun reads flags. Its errors say how to correct the call.
func parseRun(args []string, help io.Writer) (runOptions, error) {
	o := runOptions{}
	flags := newFlags("run", runUsage, help)
	flags.Uint64Var(&o.seed, "seed", 0, "what faults, customers and receivers are drawn from; 0 is a new one")
	flags.IntVar(&o.sessions, "sessions", 5000, "go on until so many sessions have been created")
	flags.IntVar(&o.faults, "faults", 200, "go on until so many faults have been injected")
	flags.IntVar(&o.deliveries, "deliveries", 10000, "go on until there are so many deliveries")
	flags.BoolVar(&o.live, "live", false,
		"with live mode: a double of the card network, a node of Ethereum and a treasury")
	flags.IntVar(&o.payouts, "payouts", 1000, "with -live: go on until there are so many live payouts")
	flags.IntVar(&o.restores, "restores", 0,
		"with -live: restore so many backups of PostgreSQL in the middle, at even parts of -payouts")
	flags.DurationVar(&o.limit, "for", 40*time.Minute, "load the stack no longer than this, whatever has happened")
	flags.DurationVar(&o.every, "every", 4*time.Second, "how long from one fault to the next, on average")
	names := flags.String("kinds", "",
		"`KINDS` of faults, separated by commas, such as worker-kill,net; default all:\n"+kindNames()+
			"\nAll after "+faultKinds[len(faultKinds)-1].name+" need -live")
	flags.IntVar(&o.customers, "customers", 24, "how many sessions are under way at once")
	flags.DurationVar(&o.within, "within", 30*time.Second,
		"how long the service may take to come to rest, beside retries that are not due")
	flags.DurationVar(&o.wait, "wait", 4*time.Minute, "how long to wait at the end for everything to come to rest")
	flags.IntVar(&o.histories, "histories", 300, "how many histories to replay on this build, about")
	flags.StringVar(&o.dir, "data", "", "an empty or new `DIRECTORY` for the data, which is kept; default a temporary one")
	if err := parse(flags, args); err != nil {
		return o, err
	}
	switch {
	case o.every < 100*time.Millisecond:
		return o, errors.New("-every must be at least 100ms")
	case o.customers < 1:
		return o, errors.New("-customers must be at least 1")
	}
	named, err := kindsNamed(*names, o.live)
	if err != nil {
		return o, fmt.Errorf("-kinds: %w; there are\n%s", err, kindNames())
	}
	for _, k := range named {
		if strings.HasPrefix(k.name, enemyPrefix) {
			o.moves = append(o.moves, k)
		} else {
			o.kinds = append(o.kinds, k)
		}
	}
	o.seed = cmp.Or(o.seed, uint64(time.Now().UnixNano()))
	return o, nil
}

func kindNames() string {
	names := make([]string, 0, len(faultKinds))
	for _, k := range slices.Concat(faultKinds, liveFaultKinds, enemyKinds) {
		names = append(names, k.name)
	}
	return strings.Join(names, ", ")
}

// chaos is the state of one run.
type chaos struct {
	runOptions
	rig        *rig
	merchants  []*shop
	world      world  // of live mode
	canary     string // an address that must never get a request
	stopCanary func()
	canaries   []invariant.Canary
	leaks      []invariant.Leak // leaks that receivers saw; guarded by mu
	out        io.Writer
	began      time.Time // of the run
	loadBegan  time.Time
	life       context.Context           // context of the whole run
	before     map[string]invariant.Hold // resources of each process before the load

	keys, created, delivered, injected atomic.Int64 // delivered counts deliveries of any status
	paidOut                            atomic.Int64 // live payouts of any status
	restored                           atomic.Int64 // backups
	quietReceivers                     atomic.Bool

	mu     sync.Mutex
	calls  []invariant.Call
	broken []string // the kind of each fault, and of each move of the enemy
	played []played // the script of each session
	exits  []string // processes that ended by themselves
}

// played is a session of a script.
type played struct{ script, session string }

// runChaos runs, reports to out, and returns errViolated when an invariant is violated.
func runChaos(ctx context.Context, o runOptions, out, progress io.Writer) error {
	temporary := o.dir == ""
	if temporary {
		var err error
		if o.dir, err = os.MkdirTemp("", "checkout-chaos-"); err != nil {
			return err
		}
	}
	c := &chaos{runOptions: o, out: progress, began: time.Now(), life: ctx}
	got, err := c.run(ctx)
	if temporary && err == nil && violations(got.results) == 0 {
		_ = os.RemoveAll(o.dir) // the system cleans up what is left
	} else {
		fmt.Fprintln(progress, "the data is in", o.dir)
	}
	if err != nil {
		return err
	}
	if err := c.print(out, got); err != nil {
		return err
	}
	for _, i := range got.results {
		for _, v := range i.Violations {
			return fmt.Errorf("%w, the first is %d: %s %s", errViolated, i.Number, v.ID, v.Text)
		}
	}
	return nil
}

func (c *chaos) run(ctx context.Context) (*outcome, error) {
	c.say("seed %d, data in %s", c.seed, c.dir)
	var err error
	if c.rig, err = startRig(ctx, filepath.Join(c.dir, "stack"), c.live, c.out); err != nil {
		return nil, err
	}
	defer c.rig.close()
	if err := c.addMerchants(ctx); err != nil {
		return nil, err
	}
	defer c.stopReceivers()
	if c.before, err = c.rig.holds(ctx); err != nil {
		return nil, err
	}
	watching, stopWatching := context.WithCancel(ctx)
	var watcher sync.WaitGroup
	watcher.Go(func() { c.rig.watch(watching, c.ended) })
	defer watcher.Wait()
	defer stopWatching()
	c.loadBegan = time.Now()
	c.breakThings(ctx)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	lastFault := time.Now()
	o := &outcome{load: lastFault.Sub(c.loadBegan)}
	if err := c.settle(ctx, lastFault, o); err != nil {
		return nil, err
	}
	if err := c.robTreasury(ctx); err != nil {
		return nil, err
	}
	return o, c.examine(ctx, o)
}

// breakThings makes customers and merchants work, and injects faults until enough has happened. It
// returns when the last fault and the last script have ended.
func (c *chaos) breakThings(ctx context.Context) {
	working, stop := context.WithCancel(ctx)
	defer stop()
	var all sync.WaitGroup
	all.Go(func() { c.work(working) })
	all.Go(func() { c.steer(working) })
	all.Go(func() { c.inject(working) })
	all.Go(func() { c.superviseTreasury(working) })
	all.Go(func() { c.attack(working) })
	all.Go(func() { c.decideAtBanks(working) })
	all.Go(func() { c.restoreInTheMiddle(working) })
	tick := time.NewTicker(2 * time.Second)
	defer tick.Stop()
	for n := 0; !c.enough() && ctx.Err() == nil; n++ {
		<-tick.C
		if n%5 == 0 {
			c.countDeliveries(ctx)
			c.progress()
		}
	}
	stop()
	all.Wait()
	c.progress()
}

// enough counts the limit from the load's beginning: on a busy computer the stack alone may take longer
// to start.
func (c *chaos) enough() bool {
	if time.Since(c.loadBegan) > c.limit {
		return true
	}
	paid := !c.live || int(c.paidOut.Load()) >= c.payouts && int(c.restored.Load()) >= c.restores
	return paid && int(c.created.Load()) >= c.sessions && int(c.delivered.Load()) >= c.deliveries &&
		int(c.injected.Load()) >= c.faults
}

// countDeliveries counts the deliveries in PostgreSQL. While PostgreSQL is away, the last count
// stays.
func (c *chaos) countDeliveries(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	counts, err := query[[]int64](ctx, c.rig, `
		SELECT ARRAY[(SELECT count(*) FROM webhook_delivery), (SELECT count(*) FROM payout WHERE mode = 'live')]`)
	if err == nil {
		c.delivered.Store(counts[0])
		c.paidOut.Store(counts[1])
	}
}

// inject injects faults until ctx ends, and then waits until all are repaired. Faults may overlap.
func (c *chaos) inject(ctx context.Context) {
	random := rand.New(rand.NewPCG(c.seed, 0)) //nolint:gosec // the same seed must give the same numbers
	var all sync.WaitGroup
	for pause(ctx, 3*time.Second); ctx.Err() == nil; pause(ctx, between(random, c.every/2, 3*c.every/2)) {
		kind := draw(c.kinds, random)
		p, ok := c.lockPart(kind, random)
		if !ok {
			continue // all of its parts are broken already
		}
		own := rand.New(rand.NewPCG(c.seed, random.Uint64())) //nolint:gosec // the same seed must give the same numbers
		all.Go(func() {
			if p != nil {
				defer p.Unlock()
			}
			// With c.life, a fault is repaired even if the load has ended.
			if kind.inject(c.life, c, p, own) {
				c.injected.Add(1)
				c.recordFault(kind.name)
			}
		})
	}
	all.Wait()
}

func (c *chaos) recordFault(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.broken = append(c.broken, name)
}

// lockPart locks an unbroken part for the fault and returns it; nil if the fault needs no part. It
// returns false when every such part is broken.
func (c *chaos) lockPart(kind faultKind, random *rand.Rand) (*part, bool) {
	if kind.part == "" {
		return nil, true
	}
	parts := c.rig.parts
	from := random.IntN(len(parts))
	for i := range parts {
		p := parts[(from+i)%len(parts)]
		if p.kind == kind.part && p.TryLock() {
			if !p.over() {
				return p, true
			}
			p.Unlock() // the watcher starts it again
		}
	}
	return nil, false
}

// gaveUp is in the last lines of Temporal's log when PostgreSQL failed while Temporal started: its server
// then ends, and its supervisor starts it again.
const gaveUp = "error starting scanner"

// noToken ends the log of a worker that started while the node replaced blocks: anvil then shows a state
// without contracts.
const noToken = "is no token"

func (c *chaos) ended(name string) {
	c.say("%s ended by itself", name)
	if name == "Temporal" && strings.Contains(fmt.Sprint(c.rig.stack.Temporal.Err()), gaveUp) {
		return
	}
	if number, isWorker := strings.CutPrefix(name, "worker "); isWorker && c.live {
		log, _ := os.ReadFile(c.rig.stack.Log("worker" + strings.TrimPrefix(number, "1"))) // without it, it is noted
		if bytes.HasSuffix(bytes.TrimSpace(log), []byte(noToken)) {
			return
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.exits = append(c.exits, name)
}

func (c *chaos) say(format string, args ...any) {
	// A lost line of progress does no harm.
	_, _ = fmt.Fprintf(c.out, "%6.1f s  %s\n", time.Since(c.began).Seconds(), fmt.Sprintf(format, args...))
}

func (c *chaos) progress() {
	c.mu.Lock()
	calls := tally(slices.Values(c.calls), invariant.Call.Outcome)
	c.mu.Unlock()
	c.say("%d sessions, %d deliveries, %d live payouts, %d faults, calls: %s",
		c.created.Load(), c.delivered.Load(), c.paidOut.Load(), c.injected.Load(), calls)
}

func (c *chaos) stopReceivers() {
	for _, m := range c.merchants {
		for _, r := range m.receivers {
			r.Close()
		}
	}
	c.stopCanary()
}

func (c *chaos) sources(rest *invariant.Rest, told []invariant.Statement) (invariant.Sources, error) {
	schedule, err := config.ParseSchedule(retrySchedule)
	c.mu.Lock()
	defer c.mu.Unlock()
	return invariant.Sources{
		DatabaseURL: c.rig.databaseURL, Temporal: c.rig.temporal, Namespace: c.rig.stack.Temporal.Namespace(),
		Schedule:     schedule,
		ReceiverLogs: []string{c.rig.stack.ReceiverLogFile()}, DeliveryRetention: 24 * time.Hour, Histories: c.histories,
		Canaries: c.canaries, Leaks: slices.Clone(c.leaks), Logs: filepath.Join(c.dir, "stack"),
		Calls: slices.Clone(c.calls), Told: told, Rest: rest,
		Progress: func(text string) { c.say("%s", text) }, Live: c.world.sources(c.rig.stack.Live),
	}, err
}
