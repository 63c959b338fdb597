package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strconv"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"golang.org/x/sync/errgroup"

	"example.com/checkout/activities/mail"
	"example.com/checkout/activities/sandbox"
	"example.com/checkout/api"
	"example.com/checkout/api/health"
	"example.com/checkout/api/hosted"
	"example.com/checkout/deploy/program/config"
	"example.com/checkout/storage"
	"example.com/checkout/worker"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/contract"
	"example.com/checkout/workflows/runs"
	"example.com/checkout/workflows/webhook"
)

// Worker runs the workflows and activities until stopped ends. It waits for PostgreSQL with its schema and
// for Temporal. It answers /healthz and /readyz until its work has ended.
func Worker(stopped context.Context, cfg config.Config) error {
	state := newState(nil)
	defer context.AfterFunc(stopped, state.MarkStopping)()
	answering, hangUp := context.WithCancel(context.WithoutCancel(stopped))
	defer hangUp()
	group, answering := errgroup.WithContext(answering)
	err := serve(answering, group, "health", cfg.HealthAddress, api.Waiting(state, http.NotFoundHandler()))
	if err != nil {
		return err
	}
	ctx, done := either(answering, stopped)
	defer done()
	err = work(ctx, cfg, state)
	hangUp()
	return cmp.Or(group.Wait(), err) // an error of the group is the cause
}

// work runs the workflows and activities until ctx ends. It returns an error when Temporal refuses the worker. Then the
// supervisor starts the process again, and the new one waits for its namespace.
func work(ctx context.Context, cfg config.Config, state *health.State) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	store, err := awaitStore(ctx, cfg, state)
	if err != nil {
		return err
	}
	defer store.Close()
	state.SetWaiting("waiting for Temporal")
	state.SetChecks(store.Ping, nil)
	err = errors.Join(
		measure(cfg, store), measureBacklog(store), measureFloat(cfg.Live, store), measureFloat(cfg.Test, store),
	)
	if err != nil {
		return err
	}
	temporal, err := AwaitTemporal(ctx, cfg.Temporal)
	if err != nil {
		return err
	}
	defer temporal.Close()
	state.SetChecks(store.Ping, health.Temporal(temporal))

	if err := requireReadable(ctx, openRuns(temporal, cfg.Temporal)); err != nil {
		return err
	}
	if err := quietSlowTasks(); err != nil {
		return err
	}
	client := &runs.Client{Temporal: temporal}
	cards := &sandbox.CardNetwork{
		Sandbox: store.Sandbox, ChallengeURL: cfg.PageURL + challengePath, SettleAfter: sandbox.DefaultSettleAfter,
	}
	options, err := workerOptions(ctx, cfg, store, client, cards)
	if err != nil {
		return err
	}
	options.Refused = end
	workers, err := startWorkers(ctx, temporal, options)
	if err != nil {
		return err
	}
	defer func() {
		if !workers.Stop() {
			slog.Warn("stopped before all work in progress had ended")
		}
	}()
	state.MarkReady()
	slog.InfoContext(ctx, "worker polls")
	go watchBuilds(ctx, temporal, cfg.Temporal)
	logMissingSchedules(ctx, cfg, client)

	sent := make(chan struct{})
	go func() { defer close(sent); sendMails(ctx, cfg, store) }()
	cards.RunCallbacks(ctx, callbacks(store, client, cards))
	<-sent
	if refused := context.Cause(ctx); !errors.Is(refused, context.Canceled) {
		return fmt.Errorf("the worker is refused by Temporal: %w", refused)
	}
	return nil
}

// callbacks are what the sandbox's card network calls.
func callbacks(store *storage.Store, client *runs.Client, cards *sandbox.CardNetwork) sandbox.Callbacks {
	return sandbox.Callbacks{
		PaymentDecided: client.SignalComplete,
		RefundChanged: func(ctx context.Context, id string) error {
			r, err := store.Refunds.AnyRefund(ctx, id)
			if err != nil {
				return err
			}
			started, err := client.StartRun(ctx, contract.RunRequest{Ref: r.Ref}, true)
			if err == nil && !started {
				err = errors.New("the open run of the refund may have asked before the change")
			}
			return err
		},
		ChargeChanged: func(ctx context.Context, reference string) error {
			risks, err := cards.Risks(ctx, reference)
			if err == nil {
				look := storage.ChargeToCheck{Reference: reference}
				_, err = store.Books.RecordRisks(ctx, checkout.ModeTest, look, risks)
			}
			return err
		},
	}
}

// workerOptions returns what the workers run until ctx ends.
func workerOptions(
	ctx context.Context, cfg config.Config, store *storage.Store, client *runs.Client, cards *sandbox.CardNetwork,
) (worker.Options, error) {
	live, noLive := workerNetworks(cfg.Live)
	test, noTest := workerNetworks(cfg.Test)
	if err := cmp.Or(noLive, noTest); err != nil {
		return worker.Options{}, err
	}
	options, err := worker.Wiring{
		Store: store, Runs: client, TestCards: cards, RecordReport: reports(store, client).RecordReport,
		Live: live, Test: test,
		CheckoutURL: cfg.PageURL, AllowLoopback: cfg.AllowLoopback, TestSchedule: cfg.TestSchedule,
		EndpointMaxInFlight: int(cfg.EndpointMaxInFlight),
		EndpointFailure:     storage.FailureRules{FailingAfter: cfg.EndpointFailingAfter, HeldAfter: cfg.EndpointHeldAfter},
		MerchantLimits: storage.MerchantLimits{
			DisputedPercent: cfg.DisputeLimit, RefundedPercent: cfg.RefundLimit, Declined: int(cfg.DeclineLimit),
			Suspend: cfg.LimitsSuspend,
		},
		DeploymentName: cfg.Temporal.DeploymentName, BuildID: cfg.Temporal.BuildID,
	}.Options(ctx)
	for mode, synced := range options.Synced {
		err = errors.Join(err, measureTreasury(mode, synced))
	}
	return options, err
}

// startWorkers waits while Temporal, which has answered before, does not answer now.
func startWorkers(ctx context.Context, temporal client.Client, o worker.Options) (workers *worker.Workers, err error) {
	err = wait(ctx, "Temporal", func() (err error) {
		workers, err = worker.Start(temporal, o)
		return err
	}, temporalIsAway)
	return workers, err
}

// temporalIsAway reports whether err means that Temporal gave no answer.
func temporalIsAway(err error) bool {
	_, late := errors.AsType[*serviceerror.DeadlineExceeded](err)
	_, away := errors.AsType[*serviceerror.Unavailable](err)
	return late || away || errors.Is(err, context.DeadlineExceeded)
}

// sendMails sends the mails until ctx ends. Without a mail server it only logs that.
func sendMails(ctx context.Context, cfg config.Config, store *storage.Store) {
	if cfg.SMTP == nil {
		slog.InfoContext(ctx, "no mails are sent: CHECKOUT_SMTP_URL is not set")
		return
	}
	(&mail.Outbox{
		People: store.People, Requests: store.Requests, Sessions: store.Sessions.SessionReader,
		Send: cfg.SMTP.Send, DashboardURL: cfg.DashboardURL, Receipt: hosted.Receipt,
	}).Run(ctx)
}

// logMissingSchedules logs an error when the settings need schedules that nobody made: then nothing
// follows the transfers, for example.
func logMissingSchedules(ctx context.Context, cfg config.Config, client *runs.Client) {
	missing, err := client.MissingSchedules(ctx, runs.Schedules{
		Chains: modesOf(cfg, func(n config.Networks) bool { return n.Chains }),
		Cards:  modesOf(cfg, func(n config.Networks) bool { return n.Cards }),
	})
	if len(missing) > 0 {
		slog.ErrorContext(ctx, "Temporal lacks schedules: run checkout setup with the same settings", "schedules", missing)
	}
	if err != nil {
		slog.WarnContext(ctx, "the schedules could not be checked", "error", err)
	}
}

// modesOf returns the modes whose networks have something.
func modesOf(cfg config.Config, has func(config.Networks) bool) (modes []checkout.Mode) {
	for _, n := range []config.Networks{cfg.Live, cfg.Test} {
		if has(n) {
			modes = append(modes, n.Mode)
		}
	}
	return modes
}

// quietSlowTasks raises the limit of config.SlowTask, unless an operator has set one. A first attempt is made within a
// workflow task, so each slow receiver would cause a warning. The attempt already has its own line in the log.
func quietSlowTasks() error {
	if os.Getenv(config.SlowTask) != "" {
		return nil
	}
	return os.Setenv(config.SlowTask, strconv.Itoa(int((webhook.AttemptTimeout + 3*time.Second).Seconds())))
}
