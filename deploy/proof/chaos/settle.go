package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"

	"example.com/checkout/deploy/proof/chaos/invariant"
	"example.com/checkout/deploy/standin/devstack"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/contract"
)

// settle waits until everything has come to rest after the last fault, and notes the duration in o.
// During the wait it acts for customers and merchants, see bringToRest.
func (c *chaos) settle(ctx context.Context, lastFault time.Time, o *outcome) error {
	c.quietReceivers.Store(true)
	rest := &invariant.Rest{Within: c.within}
	o.rest = rest
	var err error
	if rest.LongestRetry, err = c.longestRetry(ctx); err != nil {
		return err
	}
	for said := time.Now(); ; pause(ctx, 500*time.Millisecond) {
		if err := c.keepTreasury(ctx); err != nil {
			return err
		}
		if err := c.endMoneyBack(ctx); err != nil {
			return err
		}
		hastened, err := c.bringToRest(ctx)
		if err != nil {
			return err
		}
		o.hastened += hastened
		if rest.Restless, err = c.restless(ctx); err != nil || ctx.Err() != nil {
			return err
		}
		if rest.Restless == "" && c.live {
			if rest.Restless, err = c.endReset(ctx); err != nil {
				return err
			}
		}
		rest.After = time.Since(lastFault)
		if rest.Restless == "" {
			c.say("at rest %s after the last fault", rest.After.Round(100*time.Millisecond))
			break
		}
		if rest.After > c.wait {
			c.say("not at rest: %s", rest.Restless)
			break
		}
		if time.Since(said) > 5*time.Second {
			said = time.Now()
			c.say("waiting: %s", rest.Restless)
		}
	}
	rest.IdleInTx, err = query[int](ctx, c.rig, `
		SELECT count(*) FROM pg_stat_activity WHERE application_name = 'checkout'
			AND state LIKE 'idle in transaction%' AND state_change < now() - interval '10 seconds'`)
	if err != nil {
		return err
	}
	if rest.Held, err = c.compareHolds(ctx); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	rest.UnwishedExits = append([]string{}, c.exits...)
	return nil
}

// endReset signals the open runs of live sessions that have ended. An operator reset such a run to a moment before the
// end of its session. Without the signal it would end only with the session's hour. endReset returns the number of
// these runs in words, "" for 0.
func (c *chaos) endReset(ctx context.Context) (words string, err error) {
	open, err := c.rig.temporal.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
		Namespace: c.rig.stack.Temporal.Namespace(), PageSize: 1000,
		Query: fmt.Sprintf("WorkflowType = '%s' AND ExecutionStatus = 'Running'", contract.TypeCheckoutSession),
	})
	if err != nil {
		return "", err
	}
	var ids []string
	for _, run := range open.Executions {
		ids = append(ids, run.Execution.WorkflowId)
	}
	ended, err := query[[]string](ctx, c.rig, `
		SELECT coalesce(array_agg(id), '{}') FROM checkout_session
		WHERE id = ANY ($1) AND mode = 'live' AND status <> 'pending'`, ids)
	for _, id := range ended {
		err := c.rig.temporal.SignalWorkflow(ctx, id, "", contract.SignalExpire, nil)
		if _, over := errors.AsType[*serviceerror.NotFound](err); err != nil && !over { // the list lags behind
			return "", err
		}
	}
	if len(ended) == 0 || err != nil {
		return "", err
	}
	return fmt.Sprintf("%d runs of ended sessions", len(ended)), nil
}

// hasty is longer than any delay of retrySchedule. If a delivery waits longer, its worker died, and
// it waits for the retry policy's own back-off, which has the delays of production. A merchant then
// hastens it.
const hasty = 10 * time.Second

// longestRetry returns how long pending deliveries may still take: the time until the next attempt,
// but at most hasty, and 30 s for the other delays of retrySchedule (15 s) and one time-out.
func (c *chaos) longestRetry(ctx context.Context) (time.Duration, error) {
	seconds, err := query[float64](ctx, c.rig, `
		SELECT coalesce(max(least(greatest(extract(epoch FROM next_attempt_at - now()), 0), $1) + 30), 0)
		FROM webhook_delivery WHERE status = 'pending'`, hasty.Seconds())
	return time.Duration(seconds * float64(time.Second)), err
}

// restless returns the work still in progress, in words; "" when everything is at rest.
func (c *chaos) restless(ctx context.Context) (string, error) {
	words, err := query[string](ctx, c.rig, invariant.Unsettled)
	if err != nil {
		return "", err
	}
	more, err := query[string](ctx, c.rig, `
		SELECT coalesce(string_agg(n || ' ' || what, ', '), '') FROM (
			SELECT count(*) AS n, 'pending sessions' AS what FROM checkout_session WHERE status = 'pending'
			UNION ALL SELECT count(*), 'callbacks of the card network' FROM sandbox_charge WHERE callbacks > 0
			UNION ALL SELECT count(*), 'deliveries on hold' FROM webhook_delivery WHERE status = 'pending' AND held
			UNION ALL SELECT count(*), 'transfers that are not final' FROM transfer WHERE status = 'live'
			UNION ALL SELECT count(*), 'frozen accounts' FROM treasury_account WHERE frozen_at IS NOT NULL
			UNION ALL SELECT count(*), 'live payouts that failed' FROM payout
				WHERE mode = 'live' AND status = 'failed' AND source_amount > deducted
			UNION ALL SELECT count(*), 'refunds' FROM refund WHERE status = 'pending'
			UNION ALL SELECT count(*), 'undecided disputes' FROM charge_risk
				WHERE kind = 'dispute' AND status IN ('open', 'inquiry')
			UNION ALL SELECT count(*), 'reports of the card network' FROM acquirer_event WHERE unseen
			UNION ALL SELECT count(*), 'refunds that the sandbox reports' FROM sandbox_refund WHERE report_at IS NOT NULL
			UNION ALL SELECT count(*), 'disputes that the sandbox reports' FROM sandbox_dispute WHERE report_at IS NOT NULL
			UNION ALL SELECT count(*), 'due reserves' FROM reserve WHERE released_at IS NULL AND release_at < now()
		) u WHERE n > 0`)
	return strings.Trim(words+", "+more, ", "), err
}

// waiting is a session or a delivery that waits for a person.
type waiting struct{ ID, MerchantID, What string }

// bringToRest acts for the people for whom the service waits. Customers confirm at their bank.
// Merchants end unpaid sessions, resume deliveries on hold, and hasten deliveries that would wait
// longer than hasty. It returns the number of hastened deliveries.
func (c *chaos) bringToRest(ctx context.Context) (hastened int, err error) {
	found, err := queryAll[waiting](ctx, c.rig, `
		SELECT s.id, s.merchant_id, coalesce(t.action_url, '') FROM checkout_session s LEFT
			JOIN transaction t ON t.session_id = s.id AND t.status = 'processing'
			WHERE s.status = 'pending' AND (s.expires_at > now() + interval '15 seconds' OR t.action_url IS NOT NULL)
		UNION ALL SELECT id, merchant_id, 'resume' FROM webhook_delivery WHERE status = 'pending' AND held
		UNION ALL SELECT id, merchant_id, 'retry_now' FROM webhook_delivery
			WHERE status = 'pending' AND NOT held AND (next_attempt_at > now() + $1::interval
				OR next_attempt_at < now() - $1::interval)
				AND (sending_until IS NULL OR sending_until < now())`, hasty)
	if err != nil {
		return 0, err
	}
	return c.actFor(ctx, found), nil
}

// actFor acts for the people for whom these wait.
func (c *chaos) actFor(ctx context.Context, found []waiting) (hastened int) {
	for _, w := range found {
		m := c.shop(w.MerchantID)
		switch {
		case m == nil || ctx.Err() != nil: // the demo merchant has no sessions
		case checkout.IsID(checkout.PrefixDelivery, w.ID):
			got := c.steerDelivery(ctx, m, w.ID, w.What)
			if w.What == "retry_now" && got.status == http.StatusAccepted {
				hastened++
			}
		case w.What != "":
			c.answerBank(ctx, m, w.ID, w.What, "confirm")
		case m.live:
			c.end(ctx, m, invariant.OpExpire, w.ID)
		default:
			c.end(ctx, m, invariant.OpAdvance, w.ID)
		}
	}
	return hastened
}

// patience is how long a process may take to answer, and how long idle connections may stay after
// the load.
const patience = 20 * time.Second

// holds returns the resources of each process of the service, by its name. It repeats the question
// for a while, because a new process does not answer at once.
func (r *rig) holds(ctx context.Context) (all map[string]invariant.Hold, err error) {
	until(ctx, patience, time.Second, func() bool {
		all, err = r.holdsNow(ctx)
		return err == nil
	})
	return all, errors.Join(err, ctx.Err())
}

// holdsNow reads open files and memory from Linux, and goroutines from each process's metrics.
func (r *rig) holdsNow(ctx context.Context) (map[string]invariant.Hold, error) {
	all := map[string]invariant.Hold{}
	for _, p := range r.parts {
		if p.metrics == "" {
			continue
		}
		files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.pid()))
		if err != nil {
			return nil, err
		}
		goroutines, err := goroutinesOf(ctx, p.metrics)
		if err != nil {
			return nil, err
		}
		memory := math.Round(devstack.ResidentMemory(p.pid()))
		all[p.name] = invariant.Hold{Files: len(files), Goroutines: goroutines, Memory: memory}
	}
	return all, nil
}

var goroutineCount = regexp.MustCompile(`(?m)^go_goroutine_count\S* (\S+)$`)

func goroutinesOf(ctx context.Context, address string) (int, error) {
	got := request(ctx, http.MethodGet, "http://"+address+"/metrics", http.Header{}, "")
	found := goroutineCount.FindSubmatch(got.body)
	if found == nil {
		return 0, fmt.Errorf("%s has no go_goroutine_count", address)
	}
	n, err := strconv.ParseFloat(string(found[1]), 64)
	return int(n), err
}

// compareHolds returns the resources of every process before the load and now. If a process holds
// too much, compareHolds looks again for a while.
func (c *chaos) compareHolds(ctx context.Context) (held []invariant.Held, err error) {
	until(ctx, patience, time.Second, func() bool {
		var now map[string]invariant.Hold
		now, err = c.rig.holds(ctx)
		held = nil
		for _, name := range slices.Sorted(maps.Keys(c.before)) {
			held = append(held, invariant.Held{Process: name, Before: c.before[name], After: now[name]})
		}
		leaks := slices.ContainsFunc(held, func(h invariant.Held) bool { return h.Leaks() != "" })
		return err != nil || !leaks
	})
	return held, errors.Join(err, ctx.Err())
}
