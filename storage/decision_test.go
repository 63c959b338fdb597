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

// call is one run of a decision. It returns the answer in words.
type call func(ctx context.Context) (any, error)

// decision is made by two processes at once: the first was believed dead while its COMMIT was waiting.
type decision struct {
	name    string
	arrange arranged
	// The two expected answers. "" as first accepts any answer; same means the answer of the first.
	first, second string
	// rows is a query to run afterwards; hold is its expected result.
	rows, hold string
}

const same = "the same"

func TestDecisions_RunTwiceWhileTheFirstIsBeingCommitted(t *testing.T) {
	t.Parallel()
	for _, d := range decisions() {
		t.Run(d.name, func(t *testing.T) {
			f := newFixture(t)
			first, second := d.arrange(t, f)
			if second == nil {
				second = first
			}
			one, two := f.atOnce(t, first, second)
			if d.first != "" {
				require.Equal(t, d.first, one)
			}
			if d.second == same {
				d.second = one
			}
			require.Equal(t, d.second, two)
			require.Equal(t, d.hold, f.query(t, `SELECT coalesce(string_agg(r::text, ' ' ORDER BY r::text), '') FROM (`+d.rows+`) r`))
		})
	}
}

// atOnce makes the second call while the COMMIT of the first one waits. It lets the first go on
// once the second waits too or has its answer. It returns both answers.
func (f fixture) atOnce(t *testing.T, first, second call) (one, two string) {
	t.Helper()
	conn := f.Connect(t)
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
		go func() {
			got, err := c(context.Background())
			if err != nil {
				got = "refused: " + err.Error()
			}
			ended <- fmt.Sprintf("%+v", got)
		}()
		return ended
	}
	ones := run(first)
	waitOrEnd(ones, 1)
	require.Empty(t, ones, "the first call must be committing: %s", first)
	twos := run(second)
	waitOrEnd(twos, 2)
	must.Get(conn.Exec(t.Context(), `SELECT pg_advisory_unlock(1)`))(t)
	return <-ones, <-twos
}

// decisions lists every decision.
func decisions() []decision {
	var all []decision
	for _, some := range [][]decision{sessionDecisions, paymentDecisions, payoutDecisions, deliveryDecisions, registrationDecisions, accountDecisions} {
		all = append(all, some...)
	}
	return all
}

var (
	succeeded = checkout.ChargeResult{Outcome: checkout.OutcomeSucceeded}
	declined  = checkout.ChargeResult{Outcome: checkout.OutcomeFailed, Failure: checkout.FailureCardDeclined}
	underWay  = checkout.ChargeResult{Outcome: checkout.OutcomeProcessing}
	firstTry  = webhook.Turn{RunID: "run-a", Try: 1, Local: true}
	accepted  = webhook.Attempt{Run: 1, Number: 1, StatusCode: 200}
)

// arranged returns both calls. Without a second call the first is made twice.
type arranged = func(t *testing.T, f fixture) (first, second call)

// ofPayment arranges a new session and a payment that its customer asks for.
func ofPayment(do func(f fixture, s checkout.Session, id string) (call, call)) arranged {
	return func(t *testing.T, f fixture) (call, call) {
		s := f.create(t, f.newSession())
		return do(f, s, f.asks(t, s))
	}
}

// ofCharge arranges a payment in flight that the card network has answered.
func ofCharge(answer checkout.ChargeResult, do func(f fixture, s checkout.Session, id string) (call, call)) arranged {
	return func(t *testing.T, f fixture) (call, call) {
		s, id := f.charged(t, answer)
		return do(f, s, id)
	}
}

func ofPayout(do func(f fixture, p checkout.Ref) (call, call)) arranged {
	return func(t *testing.T, f fixture) (call, call) { return do(f, f.payout(t)) }
}

func ofDelivery(do func(f fixture, d checkout.Ref) (call, call)) arranged {
	return func(t *testing.T, f fixture) (call, call) { return do(f, f.delivery(t)) }
}

// ofAttempt arranges a delivery whose first attempt has begun.
func ofAttempt(do func(f fixture, d checkout.Ref) (call, call)) arranged {
	return func(t *testing.T, f fixture) (call, call) {
		d := f.delivery(t)
		f.begin(t, d, "run-a", 1)
		return do(f, d)
	}
}

const sessionRows = `SELECT status, payment_in_flight, attempts FROM checkout_session`

var sessionDecisions = []decision{
	{name: "a session is created", first: "true 1", second: "true 0", rows: sessionRows, hold: "(pending,f,0)",
		arrange: func(_ *testing.T, f fixture) (call, call) {
			n := f.newSession()
			create := func(ctx context.Context) (any, error) {
				starts := 0
				got, err := f.Sessions.CreateSession(ctx, n, func(context.Context, checkout.Session) error { starts++; return nil })
				return fmt.Sprint(got.ID == n.ID, " ", starts), err
			}
			return create, nil
		}},
	{name: "a session with an order id is created", first: "true", second: same, rows: sessionRows, hold: "(pending,f,0)",
		arrange: func(t *testing.T, f fixture) (call, call) {
			f.Exec(t, `REINDEX INDEX CONCURRENTLY checkout_session_pkey`) // PostgreSQL then checks the order id first
			return f.creates(f.withOrderID()), nil
		}},
	{name: "two sessions of one order id are created", first: "true", second: "refused: order id in use", rows: sessionRows, hold: "(pending,f,0)",
		arrange: func(_ *testing.T, f fixture) (call, call) {
			return f.creates(f.withOrderID()), f.creates(f.withOrderID())
		}},
	{name: "a session expires", first: "{Status:expired InFlight: Left:0s}", second: same, rows: sessionRows, hold: "(expired,f,0)",
		arrange: func(t *testing.T, f fixture) (call, call) { return f.expires(f.create(t, f.newSession())), nil }},
	{name: "a session expires while it is paid", second: "{Status:completed InFlight: Left:0s}", rows: sessionRows, hold: "(completed,f,1)",
		arrange: ofCharge(succeeded, func(f fixture, s checkout.Session, id string) (call, call) { return f.finishes(s, id), f.expires(s) })},
	{name: "a session expires while its payment is declined", second: "{Status:expired InFlight: Left:0s}", rows: sessionRows, hold: "(expired,f,1)",
		arrange: ofCharge(declined, func(f fixture, s checkout.Session, id string) (call, call) { return f.finishes(s, id), f.expires(s) })},
	{name: "a session expires while a payment begins", second: "in flight", rows: sessionRows, hold: "(pending,t,1)",
		arrange: ofPayment(func(f fixture, s checkout.Session, id string) (call, call) {
			return f.begins(s, id), func(ctx context.Context) (any, error) {
				got, err := f.Sessions.ExpireSession(ctx, s.Ref, storage.Expiry{At: s.ExpiresAt, Early: true})
				return map[string]string{id: "in flight"}[got.InFlight], err
			}
		})},
	{name: "a payment begins while its session expires", second: "refused: begin payment: session is not pending", rows: sessionRows, hold: "(expired,f,0)",
		arrange: ofPayment(func(f fixture, s checkout.Session, id string) (call, call) { return f.expires(s), f.begins(s, id) })},
}

const paymentRows = `SELECT t.status, t.outcome, t.attempt, s.status AS session, s.payment_in_flight,
	(SELECT count(*) FROM event), (SELECT count(*) FROM webhook_delivery), (SELECT count(*) FROM payout)
	FROM transaction t JOIN checkout_session s ON s.id = t.session_id`

var paymentDecisions = []decision{
	{name: "a payment is asked for", first: "<nil>", second: "refused: payment exists", rows: paymentRows, hold: "(created,,,pending,f,0,0,0)",
		arrange: func(t *testing.T, f fixture) (call, call) {
			p := storagetest.Payment(f.create(t, f.newSession()).Ref)
			return func(ctx context.Context) (any, error) {
				return nil, f.Sessions.CreatePayment(ctx, p)
			}, nil
		}},
	{name: "a payment begins", second: same, rows: paymentRows, hold: "(processing,,1,pending,t,0,0,0)",
		arrange: ofPayment(func(f fixture, s checkout.Session, id string) (call, call) { return f.begins(s, id), nil })},
	{name: "two payments begin", second: "refused: begin payment: a payment is in flight", rows: paymentRows,
		hold: "(created,,,pending,t,0,0,0) (processing,,1,pending,t,0,0,0)",
		arrange: func(t *testing.T, f fixture) (call, call) {
			s := f.create(t, f.newSession())
			return f.begins(s, f.asks(t, s)), f.begins(s, f.asks(t, s))
		}},
	{name: "a payment begins while the time of its session ends", first: "1", rows: paymentRows,
		second: "refused: begin payment: session is not pending", hold: "(created,,,pending,f,0,0,0)",
		arrange: ofPayment(func(f fixture, s checkout.Session, id string) (call, call) { return f.timeEnds(s), f.begins(s, id) })},
	{name: "a confirmation begins", first: "true", second: "false", rows: paymentRows, hold: "(processing,processing,1,pending,t,0,0,0)",
		arrange: ofCharge(underWay, func(f fixture, s checkout.Session, id string) (call, call) { return f.confirms(s, id), nil })},
	{name: "a payment is dropped while it begins", second: "<nil>", rows: paymentRows, hold: "(processing,,1,pending,t,0,0,0)",
		arrange: ofPayment(func(f fixture, s checkout.Session, id string) (call, call) { return f.begins(s, id), f.drops(s, id) })},
	{name: "a payment begins while it is dropped", first: "<nil>", second: "refused: begin payment: not found", rows: paymentRows, hold: "",
		arrange: ofPayment(func(f fixture, s checkout.Session, id string) (call, call) { return f.drops(s, id), f.begins(s, id) })},
	{name: "a payment begins while it is given up", first: "failed card_declined", second: "refused: begin payment: not found", rows: paymentRows,
		hold: "(created,failed,,pending,f,0,0,0)",
		arrange: ofPayment(func(f fixture, s checkout.Session, id string) (call, call) {
			return f.records(s, id, declined), f.begins(s, id)
		})},
	{name: "an answer is noted", first: "succeeded ", second: same, rows: paymentRows, hold: "(processing,succeeded,1,pending,t,0,0,0)",
		arrange: ofCharge(underWay, func(f fixture, s checkout.Session, id string) (call, call) { return f.records(s, id, succeeded), nil })},
	{name: "an answer that came late is noted after the final one", first: "succeeded ", second: same, rows: paymentRows,
		hold: "(processing,succeeded,1,pending,t,0,0,0)",
		arrange: ofCharge(underWay, func(f fixture, s checkout.Session, id string) (call, call) {
			return f.records(s, id, succeeded), f.records(s, id, underWay)
		})},
	{name: "an answer that came late is noted while the payment is decided", second: "succeeded ", rows: paymentRows,
		hold: "(succeeded,succeeded,1,completed,f,1,1,1)",
		arrange: ofCharge(succeeded, func(f fixture, s checkout.Session, id string) (call, call) {
			return f.finishes(s, id), f.records(s, id, underWay)
		})},
	{name: "a payment that succeeded is decided", second: same, rows: paymentRows, hold: "(succeeded,succeeded,1,completed,f,1,1,1)",
		arrange: ofCharge(succeeded, func(f fixture, s checkout.Session, id string) (call, call) { return f.finishes(s, id), nil })},
	{name: "a payment that was declined is decided", second: same, rows: paymentRows, hold: "(failed,failed,1,pending,f,1,1,0)",
		arrange: ofCharge(declined, func(f fixture, s checkout.Session, id string) (call, call) { return f.finishes(s, id), nil })},
	{name: "a payment begins while it is given up before its charge", first: "true",
		second: "refused: begin payment: not found", rows: paymentRows, hold: "(created,failed,,pending,f,0,0,0)",
		arrange: ofPayment(func(f fixture, s checkout.Session, id string) (call, call) { return f.givesUp(s, id), f.begins(s, id) })},
	{name: "a payment is given up while it begins", second: "false", rows: paymentRows,
		hold:    "(processing,,1,pending,t,0,0,0)",
		arrange: ofPayment(func(f fixture, s checkout.Session, id string) (call, call) { return f.begins(s, id), f.givesUp(s, id) })},
	{name: "a payment is decided while its answer is noted", first: "succeeded ", rows: paymentRows,
		second: same, hold: "(succeeded,succeeded,1,completed,f,1,1,1)",
		arrange: ofCharge(underWay, func(f fixture, s checkout.Session, id string) (call, call) {
			return f.records(s, id, succeeded), func(ctx context.Context) (any, error) {
				got, err := f.Sessions.FinishPayment(ctx, s.Ref, id)
				return map[bool]string{true: "succeeded "}[got.Status == checkout.StatusCompleted], err
			}
		})},
	{name: "a payment begins while the one before is declined", second: "{Attempt:2}", rows: paymentRows,
		hold: "(failed,failed,1,pending,t,1,1,0) (processing,,2,pending,t,1,1,0)",
		arrange: func(t *testing.T, f fixture) (call, call) {
			s, id := f.charged(t, declined)
			return f.finishes(s, id), f.begins(s, f.asks(t, s))
		}},
}

const payoutRows = `SELECT status, tx_hash, failure, (SELECT count(*) FROM event WHERE type LIKE 'payout.%') FROM payout`

// payoutEvents counts the events that tell the transfer of the payout.
const payoutEvents = `SELECT status, tx_hash, (SELECT count(*) FROM event
	WHERE subject_id = payout.id AND convert_from(body, 'UTF8')::json->'data'->>'tx_hash' = payout.tx_hash) FROM payout`

var payoutDecisions = []decision{
	{name: "two transfers of a payout are signed", first: "a ", second: same, rows: payoutRows, hold: "(pending,a,\"\",0)",
		arrange: ofPayout(func(f fixture, p checkout.Ref) (call, call) {
			return f.recordsTransfer(p, treasury.SandboxTransfer{Signed: []byte("a"), TxHash: "a"}), f.recordsTransfer(p, treasury.SandboxTransfer{Signed: []byte("b"), TxHash: "b"})
		})},
	{name: "a transfer is refused while one is signed", first: "a ", second: same, rows: payoutRows, hold: "(pending,a,\"\",0)",
		arrange: ofPayout(func(f fixture, p checkout.Ref) (call, call) {
			return f.recordsTransfer(p, treasury.SandboxTransfer{Signed: []byte("a"), TxHash: "a"}), f.recordsTransfer(p, treasury.SandboxTransfer{Failed: checkout.PayoutNetworkError})
		})},
	{name: "a payout is decided", second: same, rows: payoutRows, hold: "(sent,\"\",\"\",1)",
		arrange: ofPayout(func(f fixture, p checkout.Ref) (call, call) { return f.pays(p, ""), nil })},
	{name: "a transfer is signed and sent", first: "true", second: "false",
		rows: `SELECT p.status, p.tx_hash, x.broadcasts FROM payout p JOIN sandbox_transfer x ON x.payout_id = p.id`,
		hold: "(pending,a,1)",
		arrange: ofPayout(func(f fixture, p checkout.Ref) (call, call) {
			return func(ctx context.Context) (any, error) {
				return f.Sandbox.SendSandboxTransfer(ctx, checkout.Payout{Ref: p, Generation: 1}, treasury.SandboxTransfer{TxHash: "a", Signed: []byte("a")})
			}, nil
		})},
	{name: "a payout is decided while its transfer is signed", first: "a ", rows: payoutEvents, hold: "(sent,a,1)",
		second: same,
		arrange: ofPayout(func(f fixture, p checkout.Ref) (call, call) {
			return f.recordsTransfer(p, treasury.SandboxTransfer{Signed: []byte("a"), TxHash: "a"}), func(ctx context.Context) (any, error) {
				got, err := f.Payouts.FinishPayout(ctx, p, 1, "")
				return map[webhook.EventType]string{webhook.PayoutSent: "a "}[got.EventType], err
			}
		})},
	{name: "a payout is decided in two ways", second: same, rows: payoutRows, hold: "(sent,\"\",\"\",1)",
		arrange: ofPayout(func(f fixture, p checkout.Ref) (call, call) {
			return f.pays(p, ""), f.pays(p, checkout.PayoutNetworkError)
		})},
	{name: "a failed payout is retried", first: "2", second: "refused: retry payout: conflict: the payout has not failed",
		rows: `SELECT status, generation, failure, jsonb_array_length(retried) FROM payout`, hold: "(pending,2,\"\",1)",
		arrange: func(t *testing.T, f fixture) (call, call) {
			failed := f.failedPayout(t)
			return func(ctx context.Context) (any, error) {
				got, err := f.Payouts.RetryPayout(ctx, failed)
				return got.Generation, err
			}, nil
		}},
}

const deliveryRows = `SELECT d.status, d.run, (SELECT string_agg(concat_ws('/', a.run, a.number, a.status_code), ' ' ORDER BY a.run, a.number)
	FROM webhook_attempt a WHERE a.delivery_id = d.id) FROM webhook_delivery d WHERE d.event_id IN (SELECT id FROM event WHERE type LIKE 'checkout.%')`

var deliveryDecisions = []decision{
	{name: "an attempt begins", first: "1/1 pending begin", second: "1/1 pending report", rows: deliveryRows, hold: "(pending,1,1/1)",
		arrange: ofDelivery(func(f fixture, d checkout.Ref) (call, call) { return f.tries(d, firstTry), nil })},
	{name: "an attempt begins while its delivery is put on hold", first: "<nil>", second: "1/0 pending park", rows: deliveryRows,
		hold:    "(pending,1,)",
		arrange: ofDelivery(func(f fixture, d checkout.Ref) (call, call) { return f.holds(d), f.tries(d, firstTry) })},
	{name: "a delivery is put on hold while its attempt begins", first: "1/1 pending begin", second: "<nil>", rows: deliveryRows,
		hold:    "(pending,1,1/1)",
		arrange: ofDelivery(func(f fixture, d checkout.Ref) (call, call) { return f.tries(d, firstTry), f.holds(d) })},
	{name: "an attempt begins while its delivery is canceled", first: "canceled", second: "1/1 pending begin", rows: deliveryRows,
		hold: "(pending,1,1/1)",
		arrange: ofDelivery(func(f fixture, d checkout.Ref) (call, call) {
			return f.gives(d, webhook.DeliveryCanceled), f.tries(d, firstTry)
		})},
	{name: "an attempt begins in two runs", first: "1/1 pending begin", second: "2/1 pending begin", rows: deliveryRows,
		hold: "(pending,2,\"1/1 2/1\")",
		arrange: ofDelivery(func(f fixture, d checkout.Ref) (call, call) {
			return f.tries(d, firstTry), f.tries(d, webhook.Turn{RunID: "run-b", Try: 1, Local: true})
		})},
	{name: "an attempt of a replay begins", first: "2/1 pending begin", second: "2/1 pending report", rows: deliveryRows, hold: "(pending,2,\"1/1/200 2/1\")",
		arrange: func(t *testing.T, f fixture) (call, call) {
			d := f.delivery(t)
			f.begin(t, d, "run-a", 1)
			require.NoError(t, f.Webhooks.FinishAttempt(t.Context(), d, accepted, 0))
			return f.tries(d, webhook.Turn{RunID: "run-b", Try: 1, Local: true}), nil
		}},
	{name: "an attempt ends", first: "<nil>", second: same, rows: deliveryRows, hold: "(delivered,1,1/1/200)",
		arrange: ofAttempt(func(f fixture, d checkout.Ref) (call, call) { return f.ends(d, accepted), nil })},
	{name: "an attempt fails that was accepted", first: "<nil>", second: same, rows: deliveryRows, hold: "(delivered,1,1/1/200)",
		arrange: ofAttempt(func(f fixture, d checkout.Ref) (call, call) { return f.ends(d, accepted), f.ends(d, refused(1, 1)) })},
	{name: "an attempt is accepted that failed", first: "<nil>", second: same, rows: deliveryRows, hold: "(delivered,1,1/1/200)",
		arrange: ofAttempt(func(f fixture, d checkout.Ref) (call, call) { return f.ends(d, refused(1, 1)), f.ends(d, accepted) })},
	{name: "a delivery fails while it is accepted", first: "<nil>", second: "delivered", rows: deliveryRows, hold: "(delivered,1,1/1/200)",
		arrange: ofAttempt(func(f fixture, d checkout.Ref) (call, call) {
			return f.ends(d, accepted), f.gives(d, webhook.DeliveryFailed)
		})},
	{name: "a delivery fails", first: "failed", second: same, rows: deliveryRows, hold: "(failed,1,1/1)",
		arrange: ofAttempt(func(f fixture, d checkout.Ref) (call, call) { return f.gives(d, webhook.DeliveryFailed), nil })},
	{name: "a delivery fails while it is canceled", first: "canceled", second: same, rows: deliveryRows, hold: "(canceled,1,1/1)",
		arrange: ofAttempt(func(f fixture, d checkout.Ref) (call, call) {
			return f.gives(d, webhook.DeliveryCanceled), f.gives(d, webhook.DeliveryFailed)
		})},
	{name: "a delivery is put on hold", first: "<nil>", second: same, rows: `SELECT status, held FROM webhook_delivery`, hold: "(pending,t)",
		arrange: ofDelivery(func(f fixture, d checkout.Ref) (call, call) { return f.holds(d), nil })},
	{name: "a delivery is put on hold while it is accepted", first: "<nil>", second: "refused: delivery is not pending", rows: `SELECT status, held FROM webhook_delivery`,
		hold:    "(delivered,f)",
		arrange: ofAttempt(func(f fixture, d checkout.Ref) (call, call) { return f.ends(d, accepted), f.holds(d) })},
}

// creates creates a session and answers whether it is the requested one.
func (f fixture) creates(n storage.NewSession) call {
	return func(ctx context.Context) (any, error) {
		got, err := f.Sessions.CreateSession(ctx, n, started)
		return got.ID == n.ID, err
	}
}

func (f fixture) withOrderID() storage.NewSession {
	n, order := f.newSession(), "order-1"
	n.OrderID = &order
	return n
}

func (f fixture) expires(s checkout.Session) call {
	return func(ctx context.Context) (any, error) {
		return f.Sessions.ExpireSession(ctx, s.Ref, storage.Expiry{At: s.ExpiresAt, Early: true})
	}
}

// asks creates a payment.
func (f fixture) asks(t *testing.T, s checkout.Session) string {
	t.Helper()
	p := storagetest.Payment(s.Ref)
	require.NoError(t, f.Sessions.CreatePayment(t.Context(), p))
	return p.ID
}

func (f fixture) begins(s checkout.Session, id string) call {
	return func(ctx context.Context) (any, error) {
		if _, err := f.Sessions.BeginPayment(ctx, s.Ref, id, checkout.Quote{Rate: money.MustRate("1.08")}, id); err != nil {
			return struct{ Attempt int }{}, err
		}
		got, err := f.Sessions.Charge(ctx, s.Ref, id)
		return struct{ Attempt int }{got.Attempt}, err
	}
}

// timeEnds lets the session's time pass.
func (f fixture) timeEnds(s checkout.Session) call {
	return func(ctx context.Context) (any, error) {
		tag, err := f.Pool().Exec(ctx, `UPDATE checkout_session SET expires_at = clock_timestamp() WHERE id = $1`, s.ID)
		return tag.RowsAffected(), err
	}
}

// confirms begins the second confirmation.
func (f fixture) confirms(s checkout.Session, id string) call {
	return func(ctx context.Context) (any, error) {
		return f.Sessions.BeginConfirm(ctx, s.Ref, id, 2, checkout.Quote{Rate: money.MustRate("1.08")})
	}
}

func (f fixture) givesUp(s checkout.Session, id string) call {
	return func(ctx context.Context) (any, error) {
		return f.Sessions.GiveUpPayment(ctx, s.Ref, id, checkout.FailureProcessingError)
	}
}

func (f fixture) drops(s checkout.Session, id string) call {
	return func(ctx context.Context) (any, error) { return nil, f.Sessions.DropPayment(ctx, s.ID, id) }
}

// charged creates a session with a payment in flight; its merchant has a registration.
func (f fixture) charged(t *testing.T, result checkout.ChargeResult) (checkout.Session, string) {
	t.Helper()
	f.endpoint(t, "https://shop.example/a", webhook.CheckoutCompleted, webhook.CheckoutFailed, webhook.PayoutSent, webhook.PayoutFailed)
	f.endpoint(t, "https://shop.example/b", webhook.PayoutFailed) // no event of a payment
	s := f.create(t, f.newSession())
	id := f.beginPayment(t, s)
	f.record(t, s, id, result)
	return s, id
}

func (f fixture) records(s checkout.Session, id string, result checkout.ChargeResult) call {
	return func(ctx context.Context) (any, error) {
		outcome, failure, err := f.Sessions.RecordCharge(ctx, s.Ref, id, result)
		return fmt.Sprint(outcome, " ", failure), err
	}
}

func (f fixture) finishes(s checkout.Session, id string) call {
	return func(ctx context.Context) (any, error) { return f.Sessions.FinishPayment(ctx, s.Ref, id) }
}

// payout creates a payout of a paid session.
func (f fixture) payout(t *testing.T) checkout.Ref {
	t.Helper()
	s, id := f.charged(t, succeeded)
	got := must.Get(f.Sessions.FinishPayment(t.Context(), s.Ref, id))(t)
	return s.Owner.Ref(got.PayoutID)
}

func (f fixture) recordsTransfer(p checkout.Ref, transfer treasury.SandboxTransfer) call {
	return func(ctx context.Context) (any, error) {
		signed, failure, err := f.Sandbox.RecordSandboxTransfer(ctx, checkout.Payout{Ref: p, Generation: 1}, transfer)
		return string(signed) + " " + string(failure), err
	}
}

func (f fixture) pays(p checkout.Ref, failure checkout.PayoutFailure) call {
	return func(ctx context.Context) (any, error) { return f.Payouts.FinishPayout(ctx, p, 1, failure) }
}

func (f fixture) tries(d checkout.Ref, turn webhook.Turn) call {
	return func(ctx context.Context) (any, error) {
		got, err := f.Webhooks.BeginAttempt(ctx, d, turn)
		return fmt.Sprintf("%d/%d %s %s", got.Run, got.Number, got.Status, got.Step), err
	}
}

func (f fixture) ends(d checkout.Ref, a webhook.Attempt) call {
	return func(ctx context.Context) (any, error) { return nil, f.Webhooks.FinishAttempt(ctx, d, a, time.Hour) }
}

func (f fixture) holds(d checkout.Ref) call {
	return func(ctx context.Context) (any, error) { return nil, f.Webhooks.HoldDelivery(ctx, d) }
}

func (f fixture) gives(d checkout.Ref, status webhook.DeliveryStatus) call {
	return func(ctx context.Context) (any, error) {
		got, err := f.Webhooks.EndDelivery(ctx, d, "run-a", status)
		return got.Status, err
	}
}

const registrationRows = `SELECT status, previous_sealed_digest IS NOT NULL AS rotated FROM webhook_endpoint WHERE deleted_at IS NULL`

var registrationDecisions = []decision{
	{name: "a registration is created", first: "true", second: same, rows: registrationRows, hold: "(enabled,f)",
		arrange: func(_ *testing.T, f fixture) (call, call) { return f.createsEndpoint(), nil }},
	{name: "two registrations are created where one is left", first: "true",
		second: "refused: create webhook registration: too many webhook registrations",
		rows:   `SELECT count(*) FROM webhook_endpoint`, hold: "(50)",
		arrange: func(t *testing.T, f fixture) (call, call) {
			f.endpoint(t, "https://shop.example/a", webhook.CheckoutCompleted)
			f.Exec(t, `INSERT INTO webhook_endpoint (id, merchant_id, mode, url, events, status, master_key_id, sealed_digest, created_at)
				SELECT 'wh_' || n, merchant_id, mode, url, events, status, master_key_id, '', created_at
				FROM webhook_endpoint, generate_series(2, $1) n`, webhook.MaxEndpoints-1)
			return f.createsEndpoint(), f.createsEndpoint()
		}},
	{name: "a secret is rotated", second: same, rows: registrationRows, hold: "(enabled,t)",
		arrange: func(t *testing.T, f fixture) (call, call) {
			e, secret := f.endpoint(t, "https://shop.example/a", webhook.CheckoutCompleted), webhook.NewSecret()
			return func(ctx context.Context) (any, error) {
				got, err := f.Webhooks.RotateSecret(ctx, e.Ref, secret, time.Hour)
				return fmt.Sprint(got.Secret, got.RotatingUntil), err
			}, nil
		}},
	{name: "a registration is deleted", first: "<nil>", second: "refused: delete webhook registration: not found", rows: registrationRows, hold: "",
		arrange: func(t *testing.T, f fixture) (call, call) {
			e := f.endpoint(t, "https://shop.example/a", webhook.CheckoutCompleted)
			return func(ctx context.Context) (any, error) { return nil, f.Webhooks.DeleteEndpoint(ctx, e.Ref) }, nil
		}},
	{name: "a test event is sent", second: same, rows: `SELECT count(*) FROM webhook_delivery`, hold: "(1)",
		arrange: func(t *testing.T, f fixture) (call, call) {
			e := f.endpoint(t, "https://shop.example/a", webhook.CheckoutCompleted)
			return f.tests(e, checkout.NewID("test"), webhook.CheckoutCompleted), nil
		}},
	{name: "a test event is sent while the registration changes", second: same, rows: `SELECT count(*) FROM webhook_delivery`, hold: "(1)",
		arrange: func(t *testing.T, f fixture) (call, call) {
			e, subject := f.endpoint(t, "https://shop.example/a", webhook.CheckoutCompleted), checkout.NewID("test")
			return f.tests(e, subject, webhook.CheckoutCompleted), f.tests(e, subject, webhook.PayoutSent)
		}},
	{name: "a bulk replay is created", second: same, rows: `SELECT status FROM webhook_replay`, hold: "(running)",
		arrange: func(t *testing.T, f fixture) (call, call) {
			return f.createsReplay(newReplay(f.endpoint(t, "https://shop.example/a", webhook.CheckoutCompleted))), nil
		}},
	{name: "two bulk replays of a registration are created", rows: `SELECT status FROM webhook_replay`, hold: "(running)",
		second: "refused: create replay: a bulk replay of the registration is running",
		arrange: func(t *testing.T, f fixture) (call, call) {
			e := f.endpoint(t, "https://shop.example/a", webhook.CheckoutCompleted)
			return f.createsReplay(newReplay(e)), f.createsReplay(newReplay(e))
		}},
	{name: "two bulk replays are created that are too fast together", rows: `SELECT rate FROM webhook_replay`, hold: "(50)",
		second: "refused: create replay: the merchant's bulk replays are too fast together",
		arrange: func(t *testing.T, f fixture) (call, call) {
			one := newReplay(f.endpoint(t, "https://shop.example/a", webhook.CheckoutCompleted))
			two := newReplay(f.endpoint(t, "https://shop.example/b", webhook.CheckoutCompleted))
			one.Rate, two.Rate = 50, 51
			return f.createsReplay(one), f.createsReplay(two)
		}},
	{name: "the progress of a bulk replay is noted late", first: "<nil>", second: same, rows: `SELECT after, started FROM webhook_replay`, hold: "(whd_2,2)",
		arrange: func(t *testing.T, f fixture) (call, call) {
			r, err := f.Webhooks.CreateReplay(t.Context(), newReplay(f.endpoint(t, "https://shop.example/a", webhook.CheckoutCompleted)))
			require.NoError(t, err)
			notes := func(after string, started int) call {
				return func(ctx context.Context) (any, error) {
					r := r
					r.After, r.Started = after, started
					return nil, f.Webhooks.RecordReplay(ctx, r)
				}
			}
			return notes("whd_2", 2), notes("whd_1", 1)
		}},
}

func (f fixture) createsEndpoint() call {
	e := webhook.Endpoint{
		Ref: f.merchant.Owner(checkout.ModeTest).Ref(checkout.NewID(checkout.PrefixEndpoint)), URL: "https://shop.example/a",
		Events: webhook.EventTypes, Status: webhook.EndpointEnabled, Secret: webhook.NewSecret(),
	}
	return func(ctx context.Context) (any, error) {
		got, err := f.Webhooks.CreateEndpoint(ctx, e)
		return got.ID == e.ID && got.Secret == e.Secret, err
	}
}

func (f fixture) createsReplay(r webhook.Replay) call {
	return func(ctx context.Context) (any, error) {
		got, err := f.Webhooks.CreateReplay(ctx, r)
		return fmt.Sprint(got.ID, got.CreatedAt.UTC()), err
	}
}

func (f fixture) tests(e webhook.Endpoint, subject string, typ webhook.EventType) call {
	return func(ctx context.Context) (any, error) {
		event, delivery, err := f.Webhooks.PublishTest(ctx, storage.TestEvent{
			Owner: e.Owner, EndpointID: e.ID, SubjectID: subject, Type: typ,
			Data: func(time.Time) any { return map[string]string{} },
		})
		return fmt.Sprint(event.ID, event.Type, delivery.ID), err
	}
}

var accountDecisions = []decision{
	{name: "settings change", first: "2 events", second: "0 events", rows: `SELECT plan, (SELECT count(*) FROM event) FROM merchant`, hold: "(volume,2)",
		arrange: func(_ *testing.T, f fixture) (call, call) {
			return func(ctx context.Context) (any, error) {
				got, err := f.Merchants.ChangeMerchant(ctx, storage.MerchantChange{
					MerchantID: f.merchant.ID, Mode: checkout.ModeTest, Plan: &merchant.Plan{Name: "volume", FeeBasisPoints: 80}, By: f.note(),
				})
				return fmt.Sprintf("%d events", len(got.Events)), err
			}, nil
		}},
	{name: "two owners take the role from each other", first: "<nil>", second: "refused: change member: a merchant needs an owner", rows: `SELECT role FROM member`,
		hold: "(owner) (viewer)",
		arrange: func(t *testing.T, f fixture) (call, call) {
			demotes := func(email string) call {
				id := f.owner(t, email)
				return func(ctx context.Context) (any, error) {
					return nil, f.People.SetRole(ctx, f.merchant.ID, id, merchant.RoleViewer, f.note())
				}
			}
			return demotes("a@shop.example"), demotes("b@shop.example")
		}},
	{name: "a member is invited", first: "<nil>", second: "refused: the e-mail address is in use", rows: `SELECT role FROM member`, hold: "(viewer)",
		arrange: func(_ *testing.T, f fixture) (call, call) {
			return func(ctx context.Context) (any, error) {
				return nil, f.invites(ctx, checkout.NewID("mem"), "a@shop.example", merchant.RoleViewer)
			}, nil
		}},
	{name: "two people are invited where one place is left", first: "<nil>", second: "refused: invite member: too many open invitations",
		rows: `SELECT count(*) FROM member`, hold: "(100)",
		arrange: func(t *testing.T, f fixture) (call, call) {
			f.invitesMany(t, merchant.MaxOpenInvitations-1)
			invites := func(email string) call {
				return func(ctx context.Context) (any, error) {
					return nil, f.People.InviteMember(ctx, f.person(email), f.note())
				}
			}
			return invites("a@shop.example"), invites("b@shop.example")
		}},
	{name: "an invitation is accepted", first: "true", second: "refused: accept invitation: not found", rows: `SELECT password_hash FROM member`, hold: "(hash)",
		arrange: func(t *testing.T, f fixture) (call, call) {
			require.NoError(t, f.invites(t.Context(), "mem_1", "a@shop.example", merchant.RoleViewer))
			return func(ctx context.Context) (any, error) {
				m, err := f.People.AcceptInvitation(ctx, []byte("mem_1"), "hash", "")
				return m.ID == "mem_1", err
			}, nil
		}},
	{name: "a key is revoked", first: "<nil>", second: same, rows: `SELECT revoked_at IS NOT NULL, (SELECT count(*) FROM audit_entry) FROM api_key`, hold: "(t,1)",
		arrange: func(t *testing.T, f fixture) (call, call) {
			k := merchant.APIKey{Ref: f.merchant.Owner(checkout.ModeTest).Ref(checkout.NewID(checkout.PrefixAPIKey)), Label: "ci"}
			require.NoError(t, f.Merchants.CreateAPIKey(t.Context(), k, merchant.NewAPIKey(checkout.ModeTest)))
			return func(ctx context.Context) (any, error) {
				return nil, f.Merchants.RevokeAPIKey(ctx, k.Ref, f.note())
			}, nil
		}},
	{name: "a finding is closed", first: "<nil>", second: "refused: close finding: conflict: the finding is closed",
		rows: `SELECT closed_why FROM finding WHERE closed_at IS NOT NULL`, hold: "(settled)",
		arrange: func(t *testing.T, f fixture) (call, call) {
			must.Get(f.Books.OpenFinding(t.Context(), books.Finding{Mode: checkout.ModeTest, Kind: books.FindingCostDiffers, Subject: "pi_1"}))(t)
			open := must.Get(f.Books.OpenFindings(t.Context(), checkout.ModeTest))(t)
			return func(ctx context.Context) (any, error) {
				return nil, f.Books.CloseFinding(ctx, open[0].ID, "settled", f.note())
			}, nil
		}},
	{name: "a request is claimed", first: "true", second: "refused: request with that idempotency key is in progress",
		rows: `SELECT status FROM idempotent_request`, hold: "()",
		arrange: func(_ *testing.T, f fixture) (call, call) { return f.claims(), nil }},
	{name: "a request is claimed whose first answer is too old", first: "true", second: "refused: request with that idempotency key is in progress",
		rows: `SELECT status FROM idempotent_request`, hold: "()",
		arrange: func(t *testing.T, f fixture) (call, call) {
			must.Get(f.claims()(t.Context()))(t)
			require.NoError(t, f.Requests.KeepAnswer(t.Context(), f.request("key-1"), storage.KeptAnswer{Status: 201}))
			f.Exec(t, `UPDATE idempotent_request SET created_at = now() - interval '2 days'`)
			return f.claims(), nil
		}},
}

func (f fixture) claims() call {
	return func(ctx context.Context) (any, error) {
		kept, seed, err := f.Requests.ClaimRequest(ctx, f.request("key-1"), []byte("body"))
		return kept == nil && seed != nil, err
	}
}

// note returns an entry of the audit log.
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
	t.Helper()
	id := checkout.NewID("mem")
	require.NoError(t, f.invites(t.Context(), id, email, merchant.RoleOwner))
	must.Get(f.People.AcceptInvitation(t.Context(), []byte(id), "hash", ""))(t)
	return id
}
