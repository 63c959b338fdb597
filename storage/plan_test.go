package storage_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"example.com/checkout/storage"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/treasury"
	"example.com/checkout/workflows/webhook"
)

// PostgreSQL plans a statement of a connection a few times and then keeps the plan. In a new installation that happens
// while the tables are nearly empty and nothing has counted their rows, and the tables grow by a hundred rows a second.
func TestPlans_OfAPaidSessionReadNoWholeTable(t *testing.T) {
	f := newFixture(t)
	f.Store = f.Open(t, 1)
	f.paysAndDelivers(t)
	conn := must.Get(f.Pool().Acquire(t.Context()))(t)
	defer conn.Release()

	for _, rows := range []string{"a few", "thousands of"} {
		if rows == "thousands of" {
			f.multiply(t)
		}
		must.Get(conn.Exec(t.Context(), `SET plan_cache_mode = force_generic_plan; DISCARD PLANS`))(t)
		read, err := conn.Query(t.Context(), `SELECT name, statement, cardinality(parameter_types) FROM pg_prepared_statements
			WHERE statement !~ 'pg_prepared_statements|^(BEGIN|COMMIT)|pg_settings|goose|master_key|installation'`)
		require.NoError(t, err)
		type statement struct {
			Name, SQL  string
			Parameters int
		}
		all := must.Get(pgx.CollectRows(read, pgx.RowToStructByPos[statement]))(t)
		require.Greater(t, len(all), 15)
		for _, s := range all {
			null := strings.Join(slices.Repeat([]string{"NULL"}, s.Parameters), ", ")
			if null != "" {
				null = "(" + null + ")"
			}
			read := must.Get(conn.Query(t.Context(), `EXPLAIN EXECUTE "`+s.Name+`"`+null, pgx.QueryExecModeSimpleProtocol))(t)
			plan, err := pgx.CollectRows(read, pgx.RowTo[string])
			require.NoError(t, err, s.SQL)
			require.NotContains(t, strings.Join(plan, "\n"), "Seq Scan", "with %s rows: %s", rows, s.SQL)
		}
	}
}

// plan returns how PostgreSQL would run a query in a connection with these settings. Tables of a test are so small that
// PostgreSQL reads them whole, unless the settings say no.
func (f fixture) plan(t *testing.T, settings, query string, args ...any) string {
	conn := f.Connect(t)
	must.Get(conn.Exec(t.Context(), settings))(t)
	rows := must.Get(conn.Query(t.Context(), "EXPLAIN "+query, args...))(t)
	return strings.Join(must.Get(pgx.CollectRows(rows, pgx.RowTo[string]))(t), "\n")
}

// multiply adds thousands of rows to the tables that grow with every session.
func (f fixture) multiply(t *testing.T) {
	for _, table := range []string{
		"checkout_session id", "transaction id session_id acquirer_ref", "payout id session_id transaction_id",
		"event id subject_id session_id", "webhook_delivery id event_id", "webhook_attempt delivery_id",
		"sandbox_charge transaction_id", "token_bucket owner",
	} {
		names := strings.Fields(table)
		var set []string
		for _, column := range names[1:] {
			set = append(set, fmt.Sprintf("'%[1]s', r.%[1]s || '-' || i", column))
		}
		f.Exec(t, fmt.Sprintf(`INSERT INTO %[1]s SELECT (jsonb_populate_record(r, jsonb_build_object(%[2]s))).*
			FROM %[1]s r, generate_series(1, 3000) i`, names[0], strings.Join(set, ", ")))
	}
}

// paysAndDelivers does what the API and the workers do for a paid session.
func (f fixture) paysAndDelivers(t *testing.T) {
	ctx := t.Context()
	e := f.endpoint(t, "https://shop.example/a", webhook.CheckoutCompleted, webhook.PayoutSent)
	_, _, err := f.Merchants.Authenticate(ctx, []byte("unknown"), storage.RequestWrite, storage.Rates{})
	require.ErrorIs(t, err, checkout.ErrAPIKey)
	bucket := storage.Bucket{Owner: "192.0.2.1", Kind: "page", Rate: storage.Rate{PerSecond: 1, Burst: 9}}
	must.Get(f.Requests.Allow(ctx, bucket))(t)
	require.NoError(t, f.Requests.GiveBack(ctx, bucket))
	require.NoError(t, f.Requests.LogRequests(ctx, []merchant.APIRequest{{
		Ref: e.Owner.Ref(checkout.NewID(checkout.PrefixRequest)), CreatedAt: time.Now(),
	}}))
	s := f.create(t, f.newSession())
	look := func() checkout.Session {
		got, _, err := f.Sessions.CustomerSession(ctx, s.ID)
		require.NoError(t, err)
		return got
	}
	look()
	must.Get(f.Sessions.Session(ctx, s.Ref))(t)

	id := f.asks(t, s)
	must.Get(f.Sessions.Charge(ctx, s.Ref, id))(t)
	must.Get(f.Sessions.BeginPayment(ctx, s.Ref, id, checkout.Quote{Rate: money.MustRate("1.08")}, id))(t)
	must.Get(f.Sandbox.CreateSandboxCharge(ctx, storage.SandboxCharge{TransactionID: id, Outcome: checkout.OutcomeSucceeded}))(t)
	f.record(t, s, id, succeeded)
	paid := must.Get(f.Sessions.FinishPayment(ctx, s.Ref, id))(t)

	p := must.Get(f.Payouts.PayoutToSend(ctx, s.Owner.Ref(paid.PayoutID)))(t)
	require.True(t, must.Get(f.Sandbox.SendSandboxTransfer(ctx, p.Payout, treasury.SandboxTransfer{Signed: []byte("a"), TxHash: "a"}))(t))
	for _, d := range append(paid.Deliveries, must.Get(f.Payouts.FinishPayout(ctx, p.Ref, p.Generation, ""))(t).Deliveries...) {
		must.Get(f.Webhooks.BeginAttempt(ctx, s.Owner.Ref(d.ID), webhook.Turn{RunID: "run", Try: 1, Local: true}))(t)
		require.NoError(t, f.Webhooks.FinishAttempt(ctx, s.Owner.Ref(d.ID), webhook.Attempt{Run: 1, Number: 1, StatusCode: 200}, 0))
	}
	require.Equal(t, checkout.StatusCompleted, look().Status)
	require.EqualValues(t, 2, f.query(t, `SELECT count(*) FROM webhook_delivery WHERE status = 'delivered'`))
}

// TestPlans_EachQueryOverManyRowsHasAnIndex reads the plans of the queries that look for old rows, for what waits, and
// for the feed. A query without
// an index reads a whole table nevertheless.
func TestPlans_EachQueryOverManyRowsHasAnIndex(t *testing.T) {
	f := newFixture(t)
	for rows, index := range map[storage.OldRows]string{
		storage.OldAnswers: "idempotent_request_age", storage.OldMails: "mail_age", storage.OldPictures: "picture_last_used",
		storage.OldAPIRequests: "api_request_age", storage.OldSandboxCharges: "sandbox_charge_age", storage.OldSandboxTransfers: "sandbox_transfer_age",
	} {
		plan := f.plan(t, `SET enable_seqscan = off`, storage.DeleteOldQuery(rows), 30*24*time.Hour, 9)
		require.Regexp(t, index+` .*\n\s*Index Cond: \(`, plan, "it reads no row that is not old")
	}
	sessions := strings.NewReplacer("$1", "''", "$2", "'cs_z'", "$3", "'30 days'", "$4", "1000").Replace(storage.DeleteOldSessionsQuery)
	feed := strings.NewReplacer("$1", "'m'", "$2", "'test'", "$3", "0", "$4", "'5'", "$5", "'evt_1'", "$6", "10").Replace(storage.EventFeedQuery)
	plan := f.plan(t, `SET enable_seqscan = off; SET enable_sort = off`, feed)
	require.Regexp(t, `event_feed[^|]*ROW\(feed_era, commit_xid, id\) >[^|]*ROW\(feed_era, commit_xid\) <`, plan)
	require.NotRegexp(t, "Filter|Sort", plan)
	require.NotContains(t, f.plan(t, `SET enable_seqscan = off`, storage.BacklogQuery, time.Minute, storage.BacklogLimit), "Seq Scan")
	for query, index := range map[string]string{
		sessions:                               "checkout_session_removable transaction_session payout_session_id_key event_session webhook_endpoint_session",
		storage.UselessCardsQuery + ` LIMIT 9`: "transaction_untried",
		`SELECT id FROM audit_entry WHERE id < 'aud_z' ORDER BY id LIMIT 1000`: "audit_entry_pkey",
		`SELECT FROM webhook_endpoint WHERE master_key_id = 'k'`:               "webhook_endpoint_master_key",
		`SELECT FROM webhook_endpoint WHERE previous_master_key_id = 'k'`:      "webhook_endpoint_previous_master_key",
		`SELECT FROM idempotent_request WHERE master_key_id = 'k'`:             "idempotent_request_master_key",
		`SELECT FROM checkout_session WHERE signing_endpoint_id = 'e'`:         "checkout_session_signing_endpoint",
		`SELECT FROM payout WHERE transaction_id = 't'`:                        "payout_transaction",
		`SELECT FROM transfer_payout WHERE payout_id = 'p'`:                    "transfer_payout_payout",
		`SELECT FROM charge_risk WHERE transaction_id = 't'`:                   "charge_risk_transaction",
		`SELECT FROM webhook_delivery WHERE endpoint_id = 'e'`:                 "webhook_delivery_endpoint",
		`SELECT FROM webhook_replay WHERE endpoint_id = 'e'`:                   "webhook_replay_endpoint",
	} {
		plan := f.plan(t, `SET enable_seqscan = off; SET plan_cache_mode = force_generic_plan`, query)
		for name := range strings.FieldsSeq(index) {
			require.Contains(t, plan, name)
		}
	}
}
