package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"example.com/checkout/deploy/proof/chaos/invariant"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
)

// refundCards are paid, and their refunds succeed, wait, are returned or refused. disputedCards are paid and disputed.
// Source: api/README.md, "Test cards", and docs.stripe.com/testing.
var (
	refundCards       = []string{goodCard, goodCard, "4000000000007726", "4000000000005126", "4000000000000283"}
	disputedCards     = []string{"4000000000000291", "4000000000000291", "4000000000001976", "4000000000005423"}
	liveRefundCards   = []string{liveGood, liveGood, "4000000000007726", "4000000000005126"}
	liveDisputedCards = []string{"4000000000000259", "4000000000000259", "4000000000001976", "4000000000005423"}
)

// merchantTerms are what merchants agree on beside the fee. They take turns. One reserve is released at once, the
// other one after the run.
var merchantTerms = []string{
	`reserve_basis_points = 1000, reserve_days = 0`,
	`debt_limit = 100000`,
	`debt_limit = 0`,
	`debt_limit = 100000, recovery_percent = 50, reserve_basis_points = 500, reserve_days = 1`,
	`debt_limit = 2000`,
}

func (c *chaos) agreeOnTerms(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, c.rig.databaseURL)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // everything was written
	for _, all := range [][]*shop{c.merchants, c.world.merchants} {
		for i, m := range all {
			terms := merchantTerms[i%len(merchantTerms)]
			if _, err := conn.Exec(ctx, `UPDATE merchant SET `+terms+` WHERE id = $1`, m.id); err != nil {
				return err
			}
		}
	}
	return nil
}

var refundBodies = []string{
	``, `{}`, `{"amount": 0.07}`, `{"amount": 3.33, "reason": "duplicate"}`, `{"amount": 10.50}`,
}

// refunds orders up to three refunds of the session, in parts or of all that is left. Half of the requests come twice
// at once.
func refunds(ctx context.Context, c *chaos, s *scene) {
	for range 1 + s.random.IntN(3) {
		body := pick(s.random, refundBodies)
		key := fmt.Sprintf("refund-%d", c.keys.Add(1))
		var all sync.WaitGroup
		for range 1 + s.random.IntN(2) {
			all.Go(func() { c.orderRefund(ctx, s.m, s.id, key, body) })
		}
		all.Wait()
		pause(ctx, between(s.random, 0, 4*time.Second))
	}
}

// orderRefund repeats the request while the outcome is unknown.
func (c *chaos) orderRefund(ctx context.Context, m *shop, session, key, body string) {
	if m.live { // a refund in the time that a restore takes would be a stranger's
		if !c.world.backup.TryRLock() {
			return
		}
		defer c.world.backup.RUnlock()
	}
	for n := range 6 {
		path := "/v1/checkout/" + session + "/refund"
		got := c.call(ctx, m, call{op: invariant.OpRefund, key: key, path: path, body: body})
		if got.status != 0 && got.status < 500 {
			return
		}
		pause(ctx, time.Duration(n+1)*300*time.Millisecond)
	}
}

// disputed lets the customer dispute the live payment.
func disputed(ctx context.Context, c *chaos, s *scene) {
	reference, err := query[string](ctx, c.rig, `
		SELECT acquirer_ref FROM transaction WHERE session_id = $1 AND status = 'succeeded'`, s.id)
	if err == nil {
		_ = c.world.card.SetDispute(ctx, reference, "needs_response") // PostgreSQL may be away
	}
}

// decideAtBanks lets the banks decide refunds and disputes, and an operator pay what is disputed, until ctx ends.
func (c *chaos) decideAtBanks(ctx context.Context) {
	random := rand.New(rand.NewPCG(c.seed, 0xba4c)) //nolint:gosec // the same seed must give the same numbers
	for pause(ctx, 5*time.Second); ctx.Err() == nil; pause(ctx, between(random, 2*time.Second, 8*time.Second)) {
		if c.world.card != nil {
			_ = c.world.card.SettleRefunds(ctx) // PostgreSQL may be away; the next time is soon
		}
		if random.IntN(2) == 0 {
			_ = c.releaseDisputed(ctx, 1) // as above
			continue
		}
		_ = c.decideDisputes(ctx, 1) // as above
	}
}

// releaseDisputed lets an operator pay what may go back to a customer. Once released, a payout is due.
func (c *chaos) releaseDisputed(ctx context.Context, most int) error {
	held, err := query[[]string](ctx, c.rig, `
		SELECT coalesce(array_agg(id), '{}') FROM (SELECT id FROM payout
			WHERE status = 'pending' AND hold = 'risk' AND next_action_at > now() ORDER BY random() LIMIT $1) p`, most)
	for _, id := range held {
		if err == nil {
			err = c.operator(ctx, io.Discard, "payout", "release", id)
		}
	}
	return err
}

// decideDisputes lets the banks close inquiries, and decide half of the disputes for the merchant.
func (c *chaos) decideDisputes(ctx context.Context, most int) error {
	open, err := queryAll[struct{ Reference, Status string }](ctx, c.rig, `
		WITH open AS (
			SELECT r.mode, t.acquirer_ref, r.id, CASE WHEN r.status = 'inquiry' THEN 'warning_closed'
				WHEN hashtext(r.id) % 2 = 0 THEN 'won' ELSE 'lost' END AS status
			FROM charge_risk r JOIN transaction t ON t.id = r.transaction_id AND t.mode = r.mode
			WHERE r.kind = 'dispute' AND r.status IN ('open', 'inquiry') ORDER BY random() LIMIT $1
		), decided AS (
			UPDATE sandbox_dispute d SET later_status = open.status, later_at = now(), report_at = now()
			FROM open WHERE open.id = d.id AND d.later_at > now()
		)
		SELECT acquirer_ref, status FROM open WHERE mode = 'live'`, most)
	for _, d := range open {
		if err == nil {
			err = c.world.card.SetDispute(ctx, d.Reference, d.Status)
		}
	}
	return err
}

// endMoneyBack acts for banks and operators at the end of the load: everything is decided.
func (c *chaos) endMoneyBack(ctx context.Context) error {
	err := c.decideDisputes(ctx, 1000)
	if err != nil {
		return err
	}
	if err := c.warnedPaid(ctx); err != nil {
		c.say("a payout is not released yet: %s", err) // the hold may have ended meanwhile
	}
	if !c.live {
		return nil
	}
	waiting, err := query[[]string](ctx, c.rig, `
		SELECT coalesce(array_agg(acquirer_ref), '{}') FROM refund
		WHERE mode = 'live' AND status = 'pending' AND network_ref <> ''`)
	for _, reference := range waiting {
		_ = c.world.card.SetRefund(ctx, reference, "succeeded") // it may have ended
	}
	return err
}

// warnedPaid releases the payouts that only a warning of fraud holds: nobody decides about one.
func (c *chaos) warnedPaid(ctx context.Context) error {
	undecided, err := query[int](ctx, c.rig, `
		SELECT count(*) FROM charge_risk WHERE kind = 'dispute' AND status IN ('open', 'inquiry')`)
	if err != nil || undecided > 0 {
		return err
	}
	return c.releaseDisputed(ctx, 1000)
}

// moneyBack counts what came back, in words.
const moneyBack = `
	SELECT coalesce(string_agg(n || ' ' || what, ', ' ORDER BY what), '') FROM (
		SELECT count(*) AS n, 'refunds ' || reason || ' ' || status AS what FROM refund GROUP BY 2
		UNION ALL SELECT count(*), 'risks ' || kind || ' ' || status FROM charge_risk GROUP BY 2
		UNION ALL SELECT count(*), 'deductions ' || type FROM payout_deduction GROUP BY 2
		UNION ALL SELECT count(*), 'conversions' FROM ledger_entry WHERE kind = 'conversion'
		UNION ALL SELECT count(*), 'released reserves' FROM reserve WHERE released_at IS NOT NULL
		UNION ALL SELECT count(*), 'released payouts' FROM payout WHERE risk_released_at IS NOT NULL
		UNION ALL SELECT count(*), 'payouts of balances ' || status FROM payout WHERE session_id IS NULL GROUP BY 2) c`

// readStatements reads the balance of every merchant, and adds up its list.
func (c *chaos) readStatements(ctx context.Context) ([]invariant.Statement, error) {
	told := []invariant.Statement{}
	for _, all := range [][]*shop{c.merchants, c.world.merchants} {
		for _, m := range all {
			own, err := c.readStatement(ctx, m)
			if err != nil {
				return nil, fmt.Errorf("the balance of %s: %w", m.id, err)
			}
			told = append(told, own...)
		}
	}
	return told, nil
}

func (c *chaos) readStatement(ctx context.Context, m *shop) (told []invariant.Statement, err error) {
	listed := map[money.Currency]int64{}
	const first = "/v1/balance/transactions?limit=20"
	for path := first; path != ""; {
		var page struct {
			Data []struct {
				Currency money.Currency
				Net      json.Number
			}
			Next string `json:"next_cursor"`
		}
		if err := c.get(ctx, m, path, &page); err != nil {
			return nil, err
		}
		for _, t := range page.Data {
			listed[t.Currency] += cents(t.Net)
		}
		if path = ""; page.Next != "" {
			path = first + "&cursor=" + url.QueryEscape(page.Next)
		}
	}
	var balance struct {
		Balances []struct {
			Currency                           money.Currency
			Pending, Available, Owed, Reserved json.Number
		}
	}
	err = c.get(ctx, m, "/v1/balance", &balance)
	mode := checkout.ModeTest
	if m.live {
		mode = checkout.ModeLive
	}
	for _, b := range balance.Balances {
		told = append(told, invariant.Statement{Listed: listed[b.Currency], Balance: invariant.Balance{
			MerchantID: m.id, Mode: mode, Currency: b.Currency, Reserved: cents(b.Reserved),
			Total: cents(b.Pending) + cents(b.Available) - cents(b.Owed),
		}})
	}
	return told, err
}

func (c *chaos) get(ctx context.Context, m *shop, path string, into any) error {
	got := c.call(ctx, m, call{op: "read", method: http.MethodGet, path: path})
	if got.status != http.StatusOK {
		return fmt.Errorf("%s was answered %d", path, got.status)
	}
	return json.Unmarshal(got.body, into)
}

// cents reads an amount with two decimals.
func cents(n json.Number) int64 {
	units, _ := json.Number(strings.Replace(n.String(), ".", "", 1)).Int64() // 0 does not add up either
	return units
}
