package activities

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"

	"example.com/checkout/storage"
	"example.com/checkout/storage/storagetest"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/contract"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/webhook"
)

// keeper has a database for Housekeeping, and a fake Temporal that can fail.
type keeper struct {
	storagetest.Database
	t        *testing.T
	store    *storage.Store
	runs     *fakeRuns
	env      *testsuite.TestActivityEnvironment
	h        *Housekeeping
	merchant string
	endpoint string
}

// fakeRuns is a Temporal without runs.
type fakeRuns struct {
	terminated error
	refuses    map[string]bool // calls with these ids fail
	resumed    []string

	mu        sync.Mutex
	open      map[string]bool
	closed    map[string]bool
	restarted []string
	starting  func() // before each start
}

var errRefused = errors.New("refused by Temporal")

func (r *fakeRuns) Terminated(context.Context, time.Duration) ([]string, error) {
	return nil, r.terminated
}

func (r *fakeRuns) Open(_ context.Context, id string) (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.open[id], r.about(id)
}

func (r *fakeRuns) StartRun(_ context.Context, run contract.RunRequest, again bool) (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.starting != nil {
		r.starting()
	}
	if err := r.about(run.ID); err != nil || r.open[run.ID] || r.closed[run.ID] && !again {
		return false, err
	}
	r.open[run.ID] = true
	r.restarted = append(r.restarted, run.ID)
	return true, nil
}

func (r *fakeRuns) ResumeDelivery(_ context.Context, id string) error {
	r.resumed = append(r.resumed, id)
	return r.about(id)
}

func (r *fakeRuns) CancelDelivery(_ context.Context, id string) error { return r.about(id) }

func (r *fakeRuns) about(id string) error {
	if r.refuses[id] {
		return errRefused
	}
	return nil
}

// newKeeper returns the world of a test. The test runs beside others.
func newKeeper(t *testing.T) *keeper {
	t.Parallel()
	k := &keeper{t: t, Database: storagetest.New(t), runs: &fakeRuns{
		refuses: map[string]bool{}, open: map[string]bool{}, closed: map[string]bool{},
	}}
	k.store = k.Open(t, 0)
	k.merchant, k.endpoint = checkout.NewID(checkout.PrefixMerchant), checkout.NewID(checkout.PrefixEndpoint)
	require.NoError(t, k.store.Merchants.CreateMerchant(t.Context(), merchant.Merchant{
		ID: k.merchant, Name: "Shop", Plan: "standard", PaymentAttempts: merchant.DefaultPaymentAttempts,
	}, checkout.ModeTest, nil))
	require.NoError(t, must.Err(k.store.Webhooks.CreateEndpoint(t.Context(), webhook.Endpoint{
		Ref: checkout.Owner{MerchantID: k.merchant, Mode: checkout.ModeTest}.Ref(k.endpoint), URL: "https://shop.example/a",
		Events: webhook.EventTypes, Status: webhook.EndpointEnabled, Secret: webhook.NewSecret(),
	})))
	k.env = (&testsuite.WorkflowTestSuite{}).NewTestActivityEnvironment()
	k.h = &Housekeeping{
		Installation: k.store.Installation, Merchants: k.store.Merchants, Secrets: k.store.Secrets, Webhooks: k.store.Webhooks,
		Runs: k.runs, Failure: storage.FailureRules{FailingAfter: time.Hour, HeldAfter: 72 * time.Hour},
	}
	k.env.RegisterActivity(k.h)
	return k
}

func (k *keeper) count(table string) int {
	return storagetest.Value[int](k.t, k.Database, `SELECT count(*) FROM `+pgx.Identifier{table}.Sanitize())
}

// deliveries creates n pending deliveries that are an hour late.
func (k *keeper) deliveries(n int) []checkout.Ref {
	var refs []checkout.Ref
	for range n {
		_, ref, err := k.store.Webhooks.PublishTest(k.t.Context(), storage.TestEvent{
			Owner: checkout.Owner{MerchantID: k.merchant, Mode: checkout.ModeTest}, EndpointID: k.endpoint, SubjectID: checkout.NewID("test"),
			Type: webhook.PayoutSent, Data: func(time.Time) any { return map[string]string{"a": "b"} },
		})
		require.NoError(k.t, err)
		refs = append(refs, checkout.Owner{MerchantID: k.merchant, Mode: checkout.ModeTest}.Ref(ref.ID))
	}
	k.Exec(k.t, `UPDATE webhook_delivery SET next_attempt_at = next_attempt_at - interval '1 hour'`)
	return refs
}

// sessions creates n pending sessions that have an hour left.
func (k *keeper) sessions(n int) (ids []string) {
	for range n {
		ids = append(ids, checkout.NewID(checkout.PrefixSession))
	}
	k.Exec(k.t, `INSERT INTO checkout_session
			(id, merchant_id, mode, status, amount, currency, payout_currency, metadata, max_attempts, created_at, expires_at)
		SELECT id, $2, 'test', 'pending', 1050, 'EUR', 'USDC', '{}', 3, now(), now() + interval '1 hour'
		FROM unnest($1::text[]) id`, ids, k.merchant)
	return ids
}

// restarted returns the ids of the runs that RestartOrphans starts.
func (k *keeper) restarted() []string {
	k.runs.restarted = nil
	value := must.Get(k.env.ExecuteActivity(k.h.RestartOrphans, Restarts{}))(k.t)
	var done Restarts
	require.NoError(k.t, value.Get(&done))
	require.False(k.t, done.More)
	require.Len(k.t, k.runs.restarted, done.Restarted)
	return k.runs.restarted
}

// Temporal's list of runs can fail while everything else works. Overdue runs are restarted all the same.
func TestRestartOrphans_FindsWhatIsOverdueWhenTheListOfTerminatedRunsFails(t *testing.T) {
	k := newKeeper(t)
	late := k.deliveries(1)[0]
	k.runs.terminated = errRefused
	require.Equal(t, []string{late.ID}, k.restarted())
}

func TestRestartOrphans_OneRunThatCannotBeAskedAboutHidesNoOther(t *testing.T) {
	k := newKeeper(t)
	late := k.deliveries(3)
	k.runs.refuses[late[1].ID] = true
	require.ElementsMatch(t, []string{late[0].ID, late[2].ID}, k.restarted())
	// Their order is chance. The two healthy rows part them into three runs, and the longest is above patience.
	for _, ref := range k.deliveries(3*patience + 1) {
		k.runs.refuses[ref.ID] = true
	}
	require.Error(t, must.Err(k.env.ExecuteActivity(k.h.RestartOrphans, Restarts{})), "when many fail, the reason is not in the rows")
}

// A run that ends its delivery meanwhile is closed, like a terminated run. A restart would send the event again.
func TestRestartOrphans_ARunThatEndsMeanwhileIsNotRepeated(t *testing.T) {
	k := newKeeper(t)
	late := k.deliveries(2)
	k.runs.closed[late[0].ID] = true
	k.runs.starting = func() {
		k.runs.closed[late[1].ID] = true
		k.Exec(k.t, `UPDATE webhook_delivery SET status = 'delivered', next_attempt_at = NULL, finished_at = now() WHERE id = $1`, late[1].ID)
	}
	require.Equal(t, []string{late[0].ID}, k.restarted())
}

// A session without a run means that Temporal has lost data, whatever runs began since then.
func TestRestartOrphans_AfterALossAllPendingSessionsRunAgain(t *testing.T) {
	k := newKeeper(t)
	lost, since := k.sessions(2*restartPage+1), k.sessions(40)
	for _, id := range since {
		k.runs.open[id] = true
	}
	require.ElementsMatch(t, lost, k.restarted())
	require.Empty(t, k.restarted())
}

// The run of a delivery takes 10,000 signals and no more. Only failures one after the other mean that Temporal is away.
func TestResumeParked_RunsThatRefuseHoldUpNoOther(t *testing.T) {
	k := newKeeper(t)
	var parked []string
	for _, ref := range k.deliveries(16) {
		parked = append(parked, ref.ID)
	}
	slices.Sort(parked)
	k.Exec(k.t, `UPDATE webhook_delivery SET parked_at = now()`)
	for i := 0; i < len(parked); i += 2 {
		k.runs.refuses[parked[i]] = true
	}
	value := must.Get(k.env.ExecuteActivity(k.h.ResumeParked))(t)
	var n int
	require.NoError(t, value.Get(&n))
	require.Equal(t, len(parked)/2, n)
	require.Equal(t, parked, k.runs.resumed)
}

// onDelete runs SQL before each deletion of a row of a table.
func (k *keeper) onDelete(table, does string) {
	k.Exec(k.t, `CREATE FUNCTION first() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN `+does+`; RETURN OLD; END $$`)
	k.Exec(k.t, `CREATE TRIGGER first BEFORE DELETE ON `+table+` FOR EACH ROW EXECUTE FUNCTION first()`)
}

// oldRequests creates n requests that are older than KeepAnswers.
func (k *keeper) oldRequests(n int) {
	k.Exec(k.t, `INSERT INTO idempotent_request (merchant_id, mode, route, key, fingerprint, seed, master_key_id, created_at)
		SELECT $1, 'test', 'POST /v1/checkout', 'key-' || i, '', '', 'k1', now() - interval '25 hours' FROM generate_series(1, $2::int) i`, k.merchant, n)
}

// oldDelivery makes a delivery that ended long ago.
func (k *keeper) oldDelivery() {
	ref := k.deliveries(1)[0]
	must.Get(k.store.Webhooks.EndDelivery(k.t.Context(), ref, "", webhook.DeliveryFailed))(k.t)
	long := 60 * 24 * time.Hour
	k.Exec(k.t, `UPDATE webhook_delivery SET id = $1, finished_at = finished_at - $2::interval WHERE id = $3`,
		checkout.FirstID(checkout.PrefixDelivery, time.Now().Add(-long))[:14]+ref.ID[14:], long, ref.ID)
}

func (k *keeper) deleteFinished() (n int, err error) {
	value, err := k.env.ExecuteActivity(k.h.DeleteFinished, contract.RetentionInput{Age: 30 * 24 * time.Hour})
	if err != nil {
		return 0, err
	}
	require.NoError(k.t, value.Get(&n))
	return n, nil
}

// Once, a single statement deleted a day's requests. When it reached its time-out, nothing was ever deleted again.
func TestDeleteFinished_APartThatFailsStopsNoOther(t *testing.T) {
	k := newKeeper(t)
	k.oldRequests(1)
	k.onDelete("idempotent_request", `RAISE 'the disk is full' USING ERRCODE = '53100'`)
	k.oldDelivery()
	require.NoError(t, must.Err(k.store.Requests.AllowAddress(t.Context(), "192.0.2.1", storage.Rate{PerSecond: 1, Burst: 1})))
	k.Exec(k.t, `UPDATE token_bucket SET at = at - interval '2 hours'`)
	require.Error(t, must.Err(k.deleteFinished()), "it is tried again")
	require.Zero(t, k.count("webhook_delivery"))
	require.Zero(t, k.count("event"))
	require.Zero(t, k.count("token_bucket"))
	require.Equal(t, 1, k.count("idempotent_request"))
}

// With large rows or a slow disk, a page may never finish in time. It would be tried forever.
func TestDeleteFinished_APageThatTakesTooLongIsMadeSmaller(t *testing.T) {
	k := newKeeper(t)
	k.oldRequests(600)
	k.onDelete("idempotent_request", `PERFORM pg_sleep(0.01)`) // a page takes six seconds; a statement may take five
	require.NoError(t, must.Err(k.deleteFinished()))
	require.Zero(t, k.count("idempotent_request"))
}

func TestDeleteFinished_ForgetsAnyNumberOfRequestsInPages(t *testing.T) {
	k := newKeeper(t)
	k.oldRequests(2*retentionPage + 1)
	k.Exec(k.t, `CREATE TABLE statements (rows bigint)`)
	k.Exec(k.t, `CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO statements SELECT count(*) FROM gone; RETURN NULL; END $$`)
	k.Exec(k.t, `CREATE TRIGGER note AFTER DELETE ON idempotent_request REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION note()`)
	k.oldDelivery()
	require.Equal(t, 1, must.Get(k.deleteFinished())(t), "deliveries and events count, requests do not")
	require.Zero(t, k.count("idempotent_request"))
	require.Equal(t, retentionPage, storagetest.Value[int](t, k.Database, `SELECT max(rows) FROM statements`))
}

func TestRestartOrphans_JudgesRegistrationsThatFail(t *testing.T) {
	k := newKeeper(t)
	ref := checkout.Owner{MerchantID: k.merchant, Mode: checkout.ModeTest}.Ref(k.endpoint)
	k.Exec(k.t, `INSERT INTO webhook_endpoint_failure (endpoint_id, since, last_at) VALUES ($1, now() - interval '2 h', now())`, k.endpoint)
	judge := func() webhook.Endpoint {
		require.NoError(t, must.Err(k.env.ExecuteActivity(k.h.RestartOrphans, Restarts{})))
		return must.Get(k.store.Webhooks.Endpoint(t.Context(), ref))(t)
	}
	require.NotNil(t, judge().FailingSince)
	k.Exec(k.t, `UPDATE webhook_endpoint_failure SET since = now() - interval '73 h'`)
	require.Equal(t, webhook.EndpointDisabled, judge().Status)
}
