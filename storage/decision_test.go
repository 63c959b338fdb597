package storage_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/storage"
	"example.com/checkout/storage/storagetest"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/books"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/treasury"
	"example.com/checkout/workflows/webhook"
)

// scene is what the calls of a decision are about. Each arrangement fills in what its calls need.
type scene struct {
	fixture
	created        storage.NewSession // to be created
	session        checkout.Session
	payment, later string       // ids of two payments of the session
	ref            checkout.Ref // of the payout, the delivery or the API key
	endpoint       webhook.Endpoint
	secret         string // the next one of the endpoint
	subject        string // of a test event
	replays        [2]webhook.Replay
	members        [2]string // ids
	finding        string    // its id
}

// call makes a decision. It returns the answer in words.
type call func(s scene) (any, error)

// decision is made by two processes at once: the first was believed dead while its COMMIT was waiting.
type decision struct {
	name    string
	arrange func(t *testing.T, f fixture) scene
	// calls are those of the two processes. Without a second one, both make the first.
	calls []call
	// The two expected answers. "" as first accepts any answer; same means the answer of the first.
	first, second string
	hold          string // result of the query of the group afterwards
}

const same = "the same"

// decisions lists every decision, by the query that reads what is stored afterwards.
var decisions = []struct {
	rows string
	all  []decision
}{
	{`SELECT status, payment_in_flight, attempts FROM checkout_session`, sessionDecisions},
	{`SELECT t.status, t.outcome, t.attempt, s.status AS session, s.payment_in_flight,
		(SELECT count(*) FROM event), (SELECT count(*) FROM webhook_delivery), (SELECT count(*) FROM payout)
		FROM transaction t JOIN checkout_session s ON s.id = t.session_id`, paymentDecisions},
	{`SELECT status, tx_hash, failure, (SELECT count(*) FROM event WHERE type LIKE 'payout.%') FROM payout`, payoutDecisions},
	{`SELECT p.status, p.tx_hash, x.broadcasts FROM payout p JOIN sandbox_transfer x ON x.payout_id = p.id`, []decision{
		{"a transfer is signed and sent", paid, []call{sendsTransfer}, "true", "false", "(pending,a,1)"},
	}},
	{`SELECT status, tx_hash, (SELECT count(*) FROM event WHERE subject_id = payout.id
		AND convert_from(body, 'UTF8')::json->'data'->>'tx_hash' = payout.tx_hash) FROM payout`, []decision{
		{"a payout is decided while its transfer is signed", paid, []call{recordsTransfer(transferA), sendsPayout}, "a ", "true", "(sent,a,1)"},
	}},
	{`SELECT status, generation, failure, jsonb_array_length(retried) FROM payout`, []decision{
		{"a failed payout is retried", failed, []call{retries}, "2", "refused: retry payout: conflict: the payout has not failed", `(pending,2,"",1)`},
	}},
	{`SELECT d.status, d.run, (SELECT string_agg(concat_ws('/', a.run, a.number, a.status_code), ' ' ORDER BY a.run, a.number)
		FROM webhook_attempt a WHERE a.delivery_id = d.id) FROM webhook_delivery d
		WHERE d.event_id IN (SELECT id FROM event WHERE type LIKE 'checkout.%')`, deliveryDecisions},
	{`SELECT status, held FROM webhook_delivery`, []decision{
		{"a delivery is put on hold", due, []call{holds}, "<nil>", same, "(pending,t)"},
		{"a delivery is put on hold while it is accepted", begun, []call{ends(accepted), holds}, "<nil>", "refused: delivery is not pending", "(delivered,f)"},
	}},
	{`SELECT status, previous_sealed_digest IS NOT NULL AS rotated FROM webhook_endpoint WHERE deleted_at IS NULL`, []decision{
		{"a registration is created", unregistered, []call{createsEndpoint}, "true", same, "(enabled,f)"},
		{"a secret is rotated", registered, []call{rotates}, "", same, "(enabled,t)"},
		{"a registration is deleted", registered, []call{deletes}, "<nil>", "refused: delete webhook registration: not found", ""},
	}},
	{`SELECT count(*) FROM webhook_endpoint`, []decision{
		{"two registrations are created where one is left", almostFull, []call{createsEndpoint, createsOtherEndpoint}, "true",
			"refused: create webhook registration: too many webhook registrations", "(50)"},
	}},
	{`SELECT count(*) FROM webhook_delivery`, []decision{
		{"a test event is sent", registered, []call{tests(webhook.CheckoutCompleted)}, "", same, "(1)"},
		{"a test event is sent while the registration changes", registered,
			[]call{tests(webhook.CheckoutCompleted), tests(webhook.PayoutSent)}, "", same, "(1)"},
	}},
	{`SELECT status, rate FROM webhook_replay`, []decision{
		{"a bulk replay is created", registered, []call{createsReplay(0)}, "", same, "(running,10)"},
		{"two bulk replays of a registration are created", registered, []call{createsReplay(0), createsReplay(1)}, "",
			"refused: create replay: a bulk replay of the registration is running", "(running,10)"},
		{"two bulk replays are created that are too fast together", tooFast, []call{createsReplay(0), createsReplay(1)}, "",
			"refused: create replay: the merchant's bulk replays are too fast together", "(running,50)"},
	}},
	{`SELECT after, started FROM webhook_replay`, []decision{
		{"the progress of a bulk replay is noted late", replaying, []call{notes("whd_2", 2), notes("whd_1", 1)}, "<nil>", same, "(whd_2,2)"},
	}},
	{`SELECT plan, (SELECT count(*) FROM event) FROM merchant`, []decision{
		{"settings change", nothing, []call{changesPlan}, "2 events", "0 events", "(volume,2)"},
	}},
	{`SELECT role FROM member`, []decision{
		{"two owners take the role from each other", twoOwners, []call{demotes(0), demotes(1)}, "<nil>",
			"refused: change member: a merchant needs an owner", "(owner) (viewer)"},
		{"a member is invited", nothing, []call{invitesAnn}, "<nil>", "refused: the e-mail address is in use", "(viewer)"},
	}},
	{`SELECT count(*) FROM member`, []decision{
		{"two people are invited where one place is left", manyInvited, []call{invites("a@shop.example"), invites("b@shop.example")}, "<nil>",
			"refused: invite member: too many open invitations", "(100)"},
	}},
	{`SELECT password_hash FROM member`, []decision{
		{"an invitation is accepted", invited, []call{accepts}, "true", "refused: accept invitation: not found", "(hash)"},
	}},
	{`SELECT revoked_at IS NOT NULL, (SELECT count(*) FROM audit_entry) FROM api_key`, []decision{
		{"a key is revoked", withKey, []call{revokes}, "<nil>", same, "(t,1)"},
	}},
	{`SELECT closed_why FROM finding WHERE closed_at IS NOT NULL`, []decision{
		{"a finding is closed", withFinding, []call{closes}, "<nil>", "refused: close finding: conflict: the finding is closed", "(settled)"},
	}},
	{`SELECT status FROM idempotent_request`, []decision{
		{"a request is claimed", nothing, []call{claims}, "true", "refused: request with that idempotency key is in progress", "()"},
		{"a request is claimed whose first answer is too old", answered, []call{claims}, "true", "refused: request with that idempotency key is in progress", "()"},
	}},
}

var sessionDecisions = []decision{
	{"a session is created", fresh, []call{creates}, "true 1", "true 0", "(pending,f,0)"},
	{"a session with an order id is created", ordered, []call{creates}, "true 1", "true 0", "(pending,f,0)"},
	{"two sessions of one order id are created", ordered, []call{creates, createsOther}, "true 1", "refused: order id in use", "(pending,f,0)"},
	{"a session expires", asked, []call{expires}, "{Status:expired InFlight: Left:0s}", same, "(expired,f,0)"},
	{"a session expires while it is paid", charged(succeeded), []call{finishes, expires}, "", "{Status:completed InFlight: Left:0s}", "(completed,f,1)"},
	{"a session expires while its payment is declined", charged(declined), []call{finishes, expires}, "", "{Status:expired InFlight: Left:0s}", "(expired,f,1)"},
	{"a session expires while a payment begins", asked, []call{begins, findsInFlight}, "", "true", "(pending,t,1)"},
	{"a payment begins while its session expires", asked, []call{expires, begins}, "", "refused: begin payment: session is not pending", "(expired,f,0)"},
}

var paymentDecisions = []decision{
	{"a payment is asked for", unasked, []call{asks}, "<nil>", "refused: payment exists", "(created,,,pending,f,0,0,0)"},
	{"a payment begins", asked, []call{begins}, "1", same, "(processing,,1,pending,t,0,0,0)"},
	{"two payments begin", askedTwice, []call{begins, laterBegins}, "", "refused: begin payment: a payment is in flight",
		"(created,,,pending,t,0,0,0) (processing,,1,pending,t,0,0,0)"},
	{"a payment begins while the time of its session ends", asked, []call{timeEnds, begins}, "1",
		"refused: begin payment: session is not pending", "(created,,,pending,f,0,0,0)"},
	{"a confirmation begins", charged(underWay), []call{confirms}, "true", "false", "(processing,processing,1,pending,t,0,0,0)"},
	{"a payment is dropped while it begins", asked, []call{begins, drops}, "", "<nil>", "(processing,,1,pending,t,0,0,0)"},
	{"a payment begins while it is dropped", asked, []call{drops, begins}, "<nil>", "refused: begin payment: not found", ""},
	{"a payment begins while it is given up", asked, []call{records(declined), begins}, "failed card_declined",
		"refused: begin payment: not found", "(created,failed,,pending,f,0,0,0)"},
	{"an answer is noted", charged(underWay), []call{records(succeeded)}, "succeeded ", same, "(processing,succeeded,1,pending,t,0,0,0)"},
	{"an answer that came late is noted after the final one", charged(underWay), []call{records(succeeded), records(underWay)},
		"succeeded ", same, "(processing,succeeded,1,pending,t,0,0,0)"},
	{"an answer that came late is noted while the payment is decided", charged(succeeded), []call{finishes, records(underWay)},
		"", "succeeded ", "(succeeded,succeeded,1,completed,f,1,1,1)"},
	{"a payment that succeeded is decided", charged(succeeded), []call{finishes}, "", same, "(succeeded,succeeded,1,completed,f,1,1,1)"},
	{"a payment that was declined is decided", charged(declined), []call{finishes}, "", same, "(failed,failed,1,pending,f,1,1,0)"},
	{"a payment begins while it is given up before its charge", asked, []call{givesUp, begins}, "true",
		"refused: begin payment: not found", "(created,failed,,pending,f,0,0,0)"},
	{"a payment is given up while it begins", asked, []call{begins, givesUp}, "", "false", "(processing,,1,pending,t,0,0,0)"},
	{"a payment is decided while its answer is noted", charged(underWay), []call{records(succeeded), completes},
		"succeeded ", "true", "(succeeded,succeeded,1,completed,f,1,1,1)"},
	{"a payment begins while the one before is declined", chargedThenAsked, []call{finishes, laterBegins}, "", "2",
		"(failed,failed,1,pending,t,1,1,0) (processing,,2,pending,t,1,1,0)"},
}

var payoutDecisions = []decision{
	{"two transfers of a payout are signed", paid, []call{recordsTransfer(transferA), recordsTransfer(transferB)}, "a ", same, `(pending,a,"",0)`},
	{"a transfer is refused while one is signed", paid, []call{recordsTransfer(transferA), recordsTransfer(refusal)}, "a ", same, `(pending,a,"",0)`},
	{"a transfer is signed while one is refused", paid, []call{recordsTransfer(refusal), recordsTransfer(transferA)},
		" network_error", same, `(pending,"",network_error,0)`},
	{"a payout is decided", paid, []call{pays("")}, "", same, `(sent,"","",1)`},
	{"a payout is decided in two ways", paid, []call{pays(""), pays(checkout.PayoutNetworkError)}, "", same, `(sent,"","",1)`},
}

var deliveryDecisions = []decision{
	{"an attempt begins", due, []call{tries("run-a")}, "1/1 pending begin", "1/1 pending report", "(pending,1,1/1)"},
	{"an attempt begins while its delivery is put on hold", due, []call{holds, tries("run-a")}, "<nil>", "1/0 pending park", "(pending,1,)"},
	{"a delivery is put on hold while its attempt begins", due, []call{tries("run-a"), holds}, "1/1 pending begin", "<nil>", "(pending,1,1/1)"},
	{"an attempt begins while its delivery is canceled", due, []call{gives(webhook.DeliveryCanceled), tries("run-a")}, "canceled", "1/1 pending begin", "(pending,1,1/1)"},
	{"an attempt begins in two runs", due, []call{tries("run-a"), tries("run-b")}, "1/1 pending begin", "2/1 pending begin", `(pending,2,"1/1 2/1")`},
	{"an attempt of a replay begins", delivered, []call{tries("run-b")}, "2/1 pending begin", "2/1 pending report", `(pending,2,"1/1/200 2/1")`},
	{"an attempt ends", begun, []call{ends(accepted)}, "<nil>", same, "(delivered,1,1/1/200)"},
	{"an attempt fails that was accepted", begun, []call{ends(accepted), ends(refused(1, 1))}, "<nil>", same, "(delivered,1,1/1/200)"},
	{"an attempt is accepted that failed", begun, []call{ends(refused(1, 1)), ends(accepted)}, "<nil>", same, "(delivered,1,1/1/200)"},
	{"a delivery fails while it is accepted", begun, []call{ends(accepted), gives(webhook.DeliveryFailed)}, "<nil>", "delivered", "(delivered,1,1/1/200)"},
	{"a delivery fails", begun, []call{gives(webhook.DeliveryFailed)}, "failed", same, "(failed,1,1/1)"},
	{"a delivery fails while it is canceled", begun, []call{gives(webhook.DeliveryCanceled), gives(webhook.DeliveryFailed)}, "canceled", same, "(canceled,1,1/1)"},
}

func TestDecisions_RunTwiceWhileTheFirstIsBeingCommitted(t *testing.T) {
	t.Parallel()
	for _, group := range decisions {
		for _, d := range group.all {
			t.Run(d.name, func(t *testing.T) {
				s := d.arrange(t, newFixture(t))
				one, two := s.atOnce(t, d.calls[0], d.calls[len(d.calls)-1])
				if d.first != "" {
					require.Equal(t, d.first, one)
				}
				if d.second == same {
					d.second = one
				}
				require.Equal(t, d.second, two)
				require.Equal(t, d.hold, s.query(t, `SELECT coalesce(string_agg(r::text, ' ' ORDER BY r::text), '') FROM (`+group.rows+`) r`))
			})
		}
	}
}

// atOnce makes the second call while the COMMIT of the first one waits. It lets the first go on
// once the second waits too or has its answer. It returns both answers.
func (s scene) atOnce(t *testing.T, first, second call) (one, two string) {
	conn := s.Connect(t)
	_, err := conn.Exec(t.Context(), `
		CREATE FUNCTION hang() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_advisory_xact_lock_shared(1); RETURN NULL; END $$;
		DO $$ DECLARE name text; BEGIN
			FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = 'public' LOOP
				EXECUTE format('CREATE CONSTRAINT TRIGGER hang AFTER INSERT OR UPDATE OR DELETE ON %I
					DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION hang()', name);
			END LOOP;
		END $$;
		SELECT pg_advisory_lock(1)`)
	require.NoError(t, err)
	waitOrEnd := func(ended chan string, waiting int) {
		require.Eventually(t, func() bool {
			var n int
			require.NoError(t, conn.QueryRow(t.Context(), `
				SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&n))
			return n == waiting || len(ended) > 0
		}, 20*time.Second, 5*time.Millisecond)
	}
	run := func(c call) chan string {
		ended := make(chan string, 1)
		go func() { ended <- s.answer(c) }()
		return ended
	}
	ones := run(first)
	waitOrEnd(ones, 1)
	require.Empty(t, ones, "the first call must be committing")
	twos := run(second)
	waitOrEnd(twos, 2)
	must.Get(conn.Exec(t.Context(), `SELECT pg_advisory_unlock(1)`))(t)
	return <-ones, <-twos
}

var (
	bg        = context.Background() // a call outlives a test that fails
	succeeded = checkout.ChargeResult{Outcome: checkout.OutcomeSucceeded}
	declined  = checkout.ChargeResult{Outcome: checkout.OutcomeFailed, Failure: checkout.FailureCardDeclined}
	underWay  = checkout.ChargeResult{Outcome: checkout.OutcomeProcessing}
	accepted  = webhook.Attempt{Run: 1, Number: 1, StatusCode: 200}
	transferA = treasury.SandboxTransfer{Signed: []byte("a"), TxHash: "a"}
	transferB = treasury.SandboxTransfer{Signed: []byte("b"), TxHash: "b"}
	refusal   = treasury.SandboxTransfer{Failed: checkout.PayoutNetworkError}
)

func nothing(_ *testing.T, f fixture) scene { return scene{fixture: f} }
func fresh(_ *testing.T, f fixture) scene   { return scene{fixture: f, created: f.newSession()} }

// ordered arranges a session with an order id. PostgreSQL checks the order id before the session's id.
func ordered(t *testing.T, f fixture) scene {
	f.Exec(t, `REINDEX INDEX CONCURRENTLY checkout_session_pkey`)
	s := fresh(t, f)
	s.created.OrderID = new("order-1")
	return s
}

func creates(s scene) (any, error) {
	starts := 0
	got, err := s.Sessions.CreateSession(bg, s.created, func(context.Context, checkout.Session) error { starts++; return nil })
	return fmt.Sprint(got.ID == s.created.ID, " ", starts), err
}

func createsOther(s scene) (any, error) {
	s.created.ID = checkout.NewID(checkout.PrefixSession)
	return creates(s)
}

func expires(s scene) (any, error) {
	return s.Sessions.ExpireSession(bg, s.session.Ref, storage.Expiry{At: s.session.ExpiresAt, Early: true})
}

func findsInFlight(s scene) (any, error) {
	got, err := s.Sessions.ExpireSession(bg, s.session.Ref, storage.Expiry{At: s.session.ExpiresAt, Early: true})
	return got.InFlight == s.payment, err
}

func unasked(t *testing.T, f fixture) scene {
	return scene{fixture: f, session: f.create(t, f.newSession()), payment: checkout.NewID(checkout.PrefixTransaction)}
}

func asks(s scene) (any, error) {
	p := storagetest.Payment(s.session.Ref)
	p.ID = s.payment
	return nil, s.Sessions.CreatePayment(bg, p)
}

// asked arranges a new session and a payment that its customer asks for.
func asked(t *testing.T, f fixture) scene {
	s := f.create(t, f.newSession())
	return scene{fixture: f, session: s, payment: f.asks(t, s)}
}

func (f fixture) asks(t *testing.T, s checkout.Session) string {
	p := storagetest.Payment(s.Ref)
	require.NoError(t, f.Sessions.CreatePayment(t.Context(), p))
	return p.ID
}

// charged arranges a payment in flight that the card network has answered.
func charged(answer checkout.ChargeResult) func(*testing.T, fixture) scene {
	return func(t *testing.T, f fixture) scene {
		s, id := f.charged(t, answer)
		return scene{fixture: f, session: s, payment: id}
	}
}

func askedTwice(t *testing.T, f fixture) scene {
	s := asked(t, f)
	s.later = f.asks(t, s.session)
	return s
}

func chargedThenAsked(t *testing.T, f fixture) scene {
	s := charged(declined)(t, f)
	s.later = f.asks(t, s.session)
	return s
}

// charged creates a session with a payment in flight; its merchant has a registration.
func (f fixture) charged(t *testing.T, result checkout.ChargeResult) (checkout.Session, string) {
	f.endpoint(t, "https://shop.example/a", webhook.CheckoutCompleted, webhook.CheckoutFailed, webhook.PayoutSent, webhook.PayoutFailed)
	f.endpoint(t, "https://shop.example/b", webhook.PayoutFailed) // no event of a payment
	s := f.create(t, f.newSession())
	id := f.beginPayment(t, s)
	f.record(t, s, id, result)
	return s, id
}

func begins(s scene) (any, error) {
	quote := checkout.Quote{Rate: money.MustRate("1.08")}
	if _, err := s.Sessions.BeginPayment(bg, s.session.Ref, s.payment, quote, s.payment); err != nil {
		return nil, err
	}
	got, err := s.Sessions.Charge(bg, s.session.Ref, s.payment)
	return got.Attempt, err
}

func laterBegins(s scene) (any, error) {
	s.payment = s.later
	return begins(s)
}

// timeEnds lets the session's time pass.
func timeEnds(s scene) (any, error) {
	tag, err := s.Pool().Exec(bg, `UPDATE checkout_session SET expires_at = clock_timestamp() WHERE id = $1`, s.session.ID)
	return tag.RowsAffected(), err
}

// confirms begins the second confirmation.
func confirms(s scene) (any, error) {
	return s.Sessions.BeginConfirm(bg, s.session.Ref, s.payment, 2, checkout.Quote{Rate: money.MustRate("1.08")})
}

func givesUp(s scene) (any, error) {
	return s.Sessions.GiveUpPayment(bg, s.session.Ref, s.payment, checkout.FailureProcessingError)
}

func drops(s scene) (any, error) { return nil, s.Sessions.DropPayment(bg, s.session.ID, s.payment) }

func records(result checkout.ChargeResult) call {
	return func(s scene) (any, error) {
		outcome, failure, err := s.Sessions.RecordCharge(bg, s.session.Ref, s.payment, result)
		return fmt.Sprint(outcome, " ", failure), err
	}
}

func finishes(s scene) (any, error) { return s.Sessions.FinishPayment(bg, s.session.Ref, s.payment) }

func completes(s scene) (any, error) {
	got, err := s.Sessions.FinishPayment(bg, s.session.Ref, s.payment)
	return got.Status == checkout.StatusCompleted, err
}

func paid(t *testing.T, f fixture) scene   { return scene{fixture: f, ref: f.payout(t)} }
func failed(t *testing.T, f fixture) scene { return scene{fixture: f, ref: f.failedPayout(t)} }

func (f fixture) payout(t *testing.T) checkout.Ref {
	s, id := f.charged(t, succeeded)
	return s.Owner.Ref(must.Get(f.Sessions.FinishPayment(t.Context(), s.Ref, id))(t).PayoutID)
}

func recordsTransfer(transfer treasury.SandboxTransfer) call {
	return func(s scene) (any, error) {
		signed, failure, err := s.Sandbox.RecordSandboxTransfer(bg, checkout.Payout{Ref: s.ref, Generation: 1}, transfer)
		return string(signed) + " " + string(failure), err
	}
}

func sendsTransfer(s scene) (any, error) {
	return s.Sandbox.SendSandboxTransfer(bg, checkout.Payout{Ref: s.ref, Generation: 1}, transferA)
}

func pays(failure checkout.PayoutFailure) call {
	return func(s scene) (any, error) { return s.Payouts.FinishPayout(bg, s.ref, 1, failure) }
}

func sendsPayout(s scene) (any, error) {
	got, err := s.Payouts.FinishPayout(bg, s.ref, 1, "")
	return got.EventType == webhook.PayoutSent, err
}

func retries(s scene) (any, error) {
	got, err := s.Payouts.RetryPayout(bg, s.ref)
	return got.Generation, err
}

func due(t *testing.T, f fixture) scene { return scene{fixture: f, ref: f.delivery(t)} }

// begun arranges a delivery whose first attempt has begun.
func begun(t *testing.T, f fixture) scene {
	s := due(t, f)
	f.begin(t, s.ref, "run-a", 1)
	return s
}

func delivered(t *testing.T, f fixture) scene {
	s := begun(t, f)
	require.NoError(t, f.Webhooks.FinishAttempt(t.Context(), s.ref, accepted, 0))
	return s
}

func tries(runID string) call {
	return func(s scene) (any, error) {
		return attempted(s.Webhooks.BeginAttempt(bg, s.ref, webhook.Turn{RunID: runID, Try: 1, Local: true}))
	}
}

func attempted(got storage.AttemptDecision, err error) (any, error) {
	return fmt.Sprintf("%d/%d %s %s", got.Run, got.Number, got.Status, got.Step), err
}

func ends(a webhook.Attempt) call {
	return func(s scene) (any, error) { return nil, s.Webhooks.FinishAttempt(bg, s.ref, a, time.Hour) }
}

func holds(s scene) (any, error) { return nil, s.Webhooks.HoldDelivery(bg, s.ref) }

func gives(status webhook.DeliveryStatus) call {
	return func(s scene) (any, error) {
		got, err := s.Webhooks.EndDelivery(bg, s.ref, "run-a", status)
		return got.Status, err
	}
}

func unregistered(_ *testing.T, f fixture) scene {
	return scene{fixture: f, endpoint: webhook.Endpoint{
		Ref: f.merchant.Owner(checkout.ModeTest).Ref(checkout.NewID(checkout.PrefixEndpoint)), URL: "https://shop.example/a",
		Events: webhook.EventTypes, Status: webhook.EndpointEnabled, Secret: webhook.NewSecret(),
	}}
}

func registered(t *testing.T, f fixture) scene {
	e := f.endpoint(t, "https://shop.example/a", webhook.CheckoutCompleted)
	return scene{fixture: f, endpoint: e, secret: webhook.NewSecret(), subject: checkout.NewID("test"),
		replays: [2]webhook.Replay{newReplay(e), newReplay(e)}}
}

func almostFull(t *testing.T, f fixture) scene {
	f.endpoint(t, "https://shop.example/a", webhook.CheckoutCompleted)
	f.Exec(t, `INSERT INTO webhook_endpoint (id, merchant_id, mode, url, events, status, master_key_id, sealed_digest, created_at)
		SELECT 'wh_' || n, merchant_id, mode, url, events, status, master_key_id, '', created_at
		FROM webhook_endpoint, generate_series(2, $1) n`, webhook.MaxEndpoints-1)
	return unregistered(t, f)
}

func createsEndpoint(s scene) (any, error) {
	got, err := s.Webhooks.CreateEndpoint(bg, s.endpoint)
	return got.ID == s.endpoint.ID && got.Secret == s.endpoint.Secret, err
}

func createsOtherEndpoint(s scene) (any, error) {
	s.endpoint.ID = checkout.NewID(checkout.PrefixEndpoint)
	return createsEndpoint(s)
}

func rotates(s scene) (any, error) {
	got, err := s.Webhooks.RotateSecret(bg, s.endpoint.Ref, s.secret, time.Hour)
	return fmt.Sprint(got.Secret, got.RotatingUntil), err
}

func deletes(s scene) (any, error) { return nil, s.Webhooks.DeleteEndpoint(bg, s.endpoint.Ref) }

func tests(typ webhook.EventType) call {
	return func(s scene) (any, error) {
		event, delivery, err := s.Webhooks.PublishTest(bg, storage.TestEvent{
			Owner: s.endpoint.Owner, EndpointID: s.endpoint.ID, SubjectID: s.subject, Type: typ,
			Data: func(time.Time) any { return map[string]string{} },
		})
		return fmt.Sprint(event.ID, event.Type, delivery.ID), err
	}
}

func tooFast(t *testing.T, f fixture) scene {
	s := registered(t, f)
	s.replays[1] = newReplay(f.endpoint(t, "https://shop.example/b", webhook.CheckoutCompleted))
	s.replays[0].Rate, s.replays[1].Rate = 50, 51
	return s
}

func replaying(t *testing.T, f fixture) scene {
	s := registered(t, f)
	s.replays[0] = must.Get(f.Webhooks.CreateReplay(t.Context(), s.replays[0]))(t)
	return s
}

func createsReplay(i int) call {
	return func(s scene) (any, error) {
		got, err := s.Webhooks.CreateReplay(bg, s.replays[i])
		return fmt.Sprint(got.ID, got.CreatedAt.UTC()), err
	}
}

func notes(after string, started int) call {
	return func(s scene) (any, error) {
		r := s.replays[0]
		r.After, r.Started = after, started
		return nil, s.Webhooks.RecordReplay(bg, r)
	}
}

func changesPlan(s scene) (any, error) {
	got, err := s.Merchants.ChangeMerchant(bg, storage.MerchantChange{
		MerchantID: s.merchant.ID, Mode: checkout.ModeTest, Plan: &merchant.Plan{Name: "volume", FeeBasisPoints: 80}, By: s.note(),
	})
	return fmt.Sprintf("%d events", len(got.Events)), err
}

func twoOwners(t *testing.T, f fixture) scene {
	return scene{fixture: f, members: [2]string{f.owner(t, "a@shop.example"), f.owner(t, "b@shop.example")}}
}

func demotes(i int) call {
	return func(s scene) (any, error) {
		return nil, s.People.SetRole(bg, s.merchant.ID, s.members[i], merchant.RoleViewer, s.note())
	}
}

func invitesAnn(s scene) (any, error) {
	return nil, s.invites(bg, checkout.NewID("mem"), "a@shop.example", merchant.RoleViewer)
}

func manyInvited(t *testing.T, f fixture) scene {
	f.invitesMany(t, merchant.MaxOpenInvitations-1)
	return nothing(t, f)
}

func invites(email string) call {
	return func(s scene) (any, error) { return nil, s.People.InviteMember(bg, s.person(email), s.note()) }
}

func invited(t *testing.T, f fixture) scene {
	require.NoError(t, f.invites(t.Context(), "mem_1", "a@shop.example", merchant.RoleViewer))
	return nothing(t, f)
}

func accepts(s scene) (any, error) {
	m, err := s.People.AcceptInvitation(bg, []byte("mem_1"), "hash", "")
	return m.ID == "mem_1", err
}

func withKey(t *testing.T, f fixture) scene {
	k := merchant.APIKey{Ref: f.merchant.Owner(checkout.ModeTest).Ref(checkout.NewID(checkout.PrefixAPIKey)), Label: "ci"}
	require.NoError(t, f.Merchants.CreateAPIKey(t.Context(), k, merchant.NewAPIKey(checkout.ModeTest)))
	return scene{fixture: f, ref: k.Ref}
}

func revokes(s scene) (any, error) { return nil, s.Merchants.RevokeAPIKey(bg, s.ref, s.note()) }

func withFinding(t *testing.T, f fixture) scene {
	must.Get(f.Books.OpenFinding(t.Context(), books.Finding{Mode: checkout.ModeTest, Kind: books.FindingCostDiffers, Subject: "pi_1"}))(t)
	return scene{fixture: f, finding: must.Get(f.Books.OpenFindings(t.Context(), checkout.ModeTest))(t)[0].ID}
}

func closes(s scene) (any, error) {
	return nil, s.Books.CloseFinding(bg, s.finding, "settled", s.note())
}

// answered arranges a request whose answer is two days old.
func answered(t *testing.T, f fixture) scene {
	must.Get(claims(nothing(t, f)))(t)
	require.NoError(t, f.Requests.KeepAnswer(t.Context(), f.request("key-1"), storage.KeptAnswer{Status: 201}))
	f.Exec(t, `UPDATE idempotent_request SET created_at = now() - interval '2 days'`)
	return nothing(t, f)
}

func claims(s scene) (any, error) {
	kept, seed, err := s.Requests.ClaimRequest(bg, s.request("key-1"), []byte("body"))
	return kept == nil && seed != nil, err
}

func (f fixture) note() merchant.AuditEntry {
	return merchant.AuditEntry{ID: checkout.NewID(checkout.PrefixAuditEntry), MerchantID: f.merchant.ID, Actor: "a@shop.example"}
}

// invites invites a member; the token's hash is the id.
func (f fixture) invites(ctx context.Context, id, email string, role merchant.Role) error {
	m := merchant.Member{ID: id, MerchantID: f.merchant.ID, Email: email, Role: role}
	if err := f.People.InviteMember(ctx, m, f.note()); err != nil {
		return err
	}
	return f.People.KeepInvitation(ctx, id, []byte(id)) // as when the mail is written
}

// owner creates an owner who can sign in.
func (f fixture) owner(t *testing.T, email string) string {
	id := checkout.NewID("mem")
	require.NoError(t, f.invites(t.Context(), id, email, merchant.RoleOwner))
	must.Get(f.People.AcceptInvitation(t.Context(), []byte(id), "hash", ""))(t)
	return id
}
