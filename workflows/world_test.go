package workflows_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"

	"example.com/checkout/activities"
	"example.com/checkout/activities/sandbox"
	"example.com/checkout/storage"
	"example.com/checkout/storage/storagetest"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/contract"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/webhook"
)

// world is everything around the workflows, for real: PostgreSQL, the sandbox's
// networks and a receiver. Only the clock of the workflows is skipped.
type world struct {
	*storage.Store
	storagetest.Database
	t          *testing.T
	merchant   merchant.Merchant
	cards      *sandbox.CardNetwork
	payments   *activities.Payments
	deliveries *activities.Deliveries
	receiver   *receiver
}

// Test cards, from api/README.md.
const (
	cardSucceeds     = "4242424242424242"
	cardDeclined     = "4000000000000002"
	cardFraud        = "4100000000000019"
	card3DS          = "4000000000003220"
	cardSlow         = "4000000000000077"
	cardLostAnswer   = "4000000000000341"
	cardPayoutBroken = "4000000000000267"
)

// newWorld returns the world of a test. The test runs beside others.
func newWorld(t *testing.T) *world {
	t.Parallel()
	db := storagetest.New(t)
	store := db.Open(t, 0)
	w := &world{Store: store, Database: db, t: t, receiver: newReceiver(t)}
	w.merchant = merchant.Merchant{
		ID: checkout.NewID(checkout.PrefixMerchant), Name: "Shop", Plan: "standard",
		FeeBasisPoints: merchant.DefaultFeeBasisPoints, PaymentAttempts: merchant.DefaultPaymentAttempts, OrderIDGuard: true,
	}
	require.NoError(t, store.Merchants.CreateMerchant(t.Context(), w.merchant, checkout.ModeTest,
		[]merchant.PayoutAddress{{Currency: money.USDC, Network: "ethereum", Address: "0xabc"}}))
	w.cards = &sandbox.CardNetwork{Sandbox: store.Sandbox, ChallengeURL: "http://bank.example", SettleAfter: time.Hour}
	w.payments = &activities.Payments{
		Payouts: store.Payouts, Refunds: store.Refunds, Disputes: store.Disputes, Sessions: store.Sessions, Webhooks: store.Webhooks.WebhookReader, CheckoutURL: "http://pay.example",
		Test: activities.SandboxNetworks(w.cards, activities.PayoutRoute{Rates: sandbox.Rates{}, Payouts: &sandbox.Payouts{Sandbox: store.Sandbox}}),
	}
	w.deliveries = activities.NewDeliveries(store.Webhooks, activities.NewAddressGuard(true), nil, 100)
	return w
}

// session creates a session of one hour and the input of its workflow.
func (w *world) session() (checkout.Session, contract.CheckoutSessionInput) {
	s := w.create(w.terms(nil))
	return s, contract.CheckoutSessionInput{
		Ref: w.owner().Ref(s.ID), ExpiresAt: s.ExpiresAt, ActionTimeout: contract.ActionTimeout,
	}
}

// create creates a session without a run: the test runs the workflow itself.
func (w *world) create(terms checkout.Session) checkout.Session {
	return must.Get(w.Sessions.CreateSession(w.t.Context(), storage.NewSession{Session: terms, Lifetime: time.Hour}, w.noWorkflow))(w.t)
}

func (w *world) terms(webhookURL *string) checkout.Session {
	return checkout.Session{
		Ref: w.owner().Ref(checkout.NewID(checkout.PrefixSession)), Amount: 1050,
		Currency: money.EUR, PayoutCurrency: money.USDC, MaxAttempts: 3, Metadata: json.RawMessage(`{}`), WebhookURL: webhookURL,
	}
}

func (w *world) noWorkflow(context.Context, checkout.Session) error { return nil }

func (w *world) owner() checkout.Owner { return w.merchant.Owner(checkout.ModeTest) }

// payment notes a payment with a test card, as the hosted page does.
func (w *world) payment(sessionID, number string) string {
	token, method, err := w.cards.Tokenize(w.t.Context(), checkout.Card{Number: number, ExpMonth: 12, ExpYear: 2099, CVC: "123"})
	require.NoError(w.t, err)
	p := storagetest.Payment(w.owner().Ref(sessionID))
	p.CardToken, p.Method = token, method
	require.NoError(w.t, w.Sessions.CreatePayment(w.t.Context(), p))
	return p.ID
}

func (w *world) endpoint(events ...webhook.EventType) {
	must.Get(w.Webhooks.CreateEndpoint(w.t.Context(), webhook.Endpoint{
		Ref: w.owner().Ref(checkout.NewID(checkout.PrefixEndpoint)),
		URL: w.receiver.URL, Events: events, Status: webhook.EndpointEnabled, Secret: webhook.NewSecret(),
	}))(w.t)
}

// read returns a session as a merchant sees it.
func (w *world) read(id string) checkout.Session {
	return must.Get(w.Sessions.Session(w.t.Context(), w.owner().Ref(id)))(w.t)
}

func (w *world) count(sql string, args ...any) int {
	return storagetest.Value[int](w.t, w.Database, sql, args...)
}

func (w *world) text(sql string, args ...any) string {
	return storagetest.Value[string](w.t, w.Database, sql, args...)
}

// refuse makes PostgreSQL refuse a statement, such as INSERT ON webhook_attempt, as
// it does while it is away. Who drops the trigger away of the table mends it.
func (w *world) refuse(statement string) { w.refuseWith(statement, "57P01") }

func (w *world) refuseWith(statement, code string) {
	w.Exec(w.t, `CREATE FUNCTION away() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'away' USING ERRCODE = '`+code+`'; END $$`)
	w.Exec(w.t, `CREATE TRIGGER away BEFORE `+statement+` EXECUTE FUNCTION away()`)
}

// env returns a time-skipping environment that runs id with the real activities.
func (w *world) env(id string, starts time.Time) *testsuite.TestWorkflowEnvironment {
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(quiet)
	env := suite.NewTestWorkflowEnvironment()
	env.SetWorkerOptions(worker.Options{DeadlockDetectionTimeout: time.Minute}) // on a busy machine a second may pass without a turn
	env.SetTestTimeout(3 * time.Minute)
	env.SetStartTime(starts)
	workflows.RegisterCheckout(env)
	workflows.RegisterWebhooks(env)
	w.deliveries.Now, w.payments.Now = env.Now, env.Now
	env.RegisterActivity(w.payments)
	env.RegisterActivity(w.deliveries)
	env.SetStartWorkflowOptions(startOptions(id))
	return env
}

// run is the workflow of a new session, in a world that it has for itself. It begins when the session was created.
type run struct {
	*world
	s   checkout.Session
	in  contract.CheckoutSessionInput
	env *testsuite.TestWorkflowEnvironment
}

func newRun(t *testing.T) *run {
	w := newWorld(t)
	s, in := w.session()
	return &run{w, s, in, w.env(s.ID, s.CreatedAt)}
}

func (w *run) after(d time.Duration, do func()) { w.env.RegisterDelayedCallback(do, d) }

// sent is the workflow of a new delivery, in a world that it has for itself. It begins now.
type sent struct {
	*world
	in  contract.WebhookDeliveryInput
	env *testsuite.TestWorkflowEnvironment
}

func newDelivery(t *testing.T) *sent {
	w := newWorld(t)
	in := w.delivery()
	return &sent{w, in, w.env(in.ID, time.Now())}
}

// execute runs a workflow to its end and returns its result.
func execute[R any](t *testing.T, env *testsuite.TestWorkflowEnvironment, workflow string, in any) R {
	env.ExecuteWorkflow(workflow, in)
	require.True(t, env.IsWorkflowCompleted())
	require.NoError(t, env.GetWorkflowError())
	var got R
	require.NoError(t, env.GetWorkflowResult(&got))
	return got
}

// slowCharge makes the charge take d of the workflow's time.
func (w *world) slowCharge(env *testsuite.TestWorkflowEnvironment, d time.Duration) {
	before(env, w.payments.ChargeCard, func(context.Context) {}).After(d)
}

// before calls do before each call of an activity.
func before[In, Out any](
	env *testsuite.TestWorkflowEnvironment, call func(context.Context, In) (Out, error), do func(context.Context),
) *testsuite.MockCallWrapper {
	return env.OnActivity(call, mock.Anything, mock.Anything).Return(func(ctx context.Context, in In) (Out, error) {
		do(ctx)
		return call(ctx, in)
	})
}

// reply is what an update was answered.
type reply struct {
	accepted bool
	done     bool
	result   any
	err      error
}

// update sends an update at a moment after the start; the reply fills later.
func update(env *testsuite.TestWorkflowEnvironment, at time.Duration, name, id string, args ...any) *reply {
	var got reply
	env.RegisterDelayedCallback(func() {
		env.UpdateWorkflow(name, id, &testsuite.TestUpdateCallback{
			OnAccept:   func() { got.accepted = true },
			OnReject:   func(err error) { got.err, got.done = err, true },
			OnComplete: func(result any, err error) { got.result, got.err, got.done = result, err, true },
		}, args...)
	}, at)
	return &got
}

// receiver is a merchant's server that answers as told and notes what came.
type receiver struct {
	*httptest.Server
	mu       sync.Mutex
	status   int
	arrivals []arrival
	onPost   func()
}

type arrival struct {
	header http.Header
	body   []byte
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{status: http.StatusOK}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		var body json.RawMessage
		_ = json.NewDecoder(req.Body).Decode(&body) // what is not JSON shows in the assertions
		r.mu.Lock()
		defer r.mu.Unlock()
		r.arrivals = append(r.arrivals, arrival{req.Header, body})
		if r.onPost != nil {
			r.onPost()
		}
		w.WriteHeader(r.status)
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) types() []string { return r.headers("X-Service-Event-Type") }

// attempts returns the numbers of the attempts that came.
func (r *receiver) attempts() []string { return r.headers("X-Service-Attempt") }

func (r *receiver) headers(name string) (values []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.arrivals {
		values = append(values, a.header.Get(name))
	}
	return values
}
