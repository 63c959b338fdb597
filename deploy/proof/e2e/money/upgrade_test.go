package money

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caarlos0/env/v11"
	"github.com/ethereum/go-ethereum/rpc"
	"github.com/shopspring/decimal"
	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/proof/e2e"
	"example.com/checkout/deploy/standin/devstack"
	"example.com/checkout/deploy/standin/need"
	"example.com/checkout/storage/pgtemp"
	"example.com/checkout/storage/storagetest/must"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/money"
	"example.com/checkout/workflows/webhook"
)

const (
	formerBuild = "TEMPORAL_WORKER_BUILD_ID=former"
	thisBuild   = "TEMPORAL_WORKER_BUILD_ID=this"
)

// TestUpgrade_FromEachRelease builds each release from the repository's history, leaves work in flight, and upgrades to
// this version by the documented steps. Without build ids this version's code goes on with the open runs, with build
// ids the release's own does.
func TestUpgrade_FromEachRelease(t *testing.T) {
	t.Parallel()
	e2e.OnlyLong(t)
	git := need.Program(t, "apt-get install --no-install-recommends git", "git")
	text := must.Get(os.ReadFile(e2e.Path("deploy", "release", "releases")))(t)
	for line := range strings.Lines(string(text)) {
		version, commit, _ := strings.Cut(strings.TrimSpace(line), " ")
		program := buildRelease(t, git, commit)
		t.Run(version+" without build ids", func(t *testing.T) {
			t.Parallel()
			r := startRelease(t, program)
			r.leaveWork()

			stack := r.upgrade()

			r.requireAllEnds(stack)
		})
		t.Run(version+" with build ids", func(t *testing.T) {
			t.Parallel()
			r := startRelease(t, program, formerBuild)
			e2e.ReleaseAt(t, r.settings, "former")
			r.leaveWork()

			stack := r.upgrade(thisBuild)
			former := r.startFormerWorker(stack)
			e2e.Release(t, stack, "this")

			r.requireAllEnds(stack)
			e2e.Await(t, "the former build is drained", time.Minute, func() bool {
				_, err := e2e.CheckoutCommand(t, stack, "release", "--drained", "former")
				return err == nil
			})
			require.NoError(t, former.Stop(20*time.Second))
		})
	}
}

// buildRelease returns the local stack of a commit, built from its own source.
func buildRelease(t *testing.T, git, commit string) (program string) {
	dir := t.TempDir()
	source, program := filepath.Join(dir, "source"), filepath.Join(dir, "devstack")
	require.NoError(t, os.Mkdir(source, 0o700))
	archive := filepath.Join(dir, "source.tar")
	for _, c := range []*exec.Cmd{
		exec.CommandContext(t.Context(), git, "-C", e2e.Path(), "archive", "--output", archive, commit),
		exec.CommandContext(t.Context(), "tar", "-xf", archive, "-C", source),
		exec.CommandContext(t.Context(), "go", "build", "-C", source, "-buildvcs=false", "-o", program, "./deploy/cmd/devstack"),
	} {
		out, err := c.CombinedOutput()
		require.NoError(t, err, "%s: %s", c, out)
	}
	return program
}

// release is the local stack of an earlier version, and what it has in flight.
type release struct {
	t        *testing.T
	program  string
	options  devstack.Options
	settings []string
	process  *devstack.Process
	stack    *devstack.Stack // the addresses of process
	receiver *devstack.Receiver
	log      *devstack.ReceiverLog

	pending, asked []string // test sessions: to be paid, and waiting for the bank
	refused        []string // deliveries
	replay         string   // path of a bulk replay
	live           []string // paid live sessions
}

func startRelease(t *testing.T, program string, settings ...string) *release {
	ports := must.Get(pgtemp.FreePorts(9))(t)
	r := &release{t: t, program: program, options: devstack.Options{
		Dir: t.TempDir(), LiveDouble: true, Bitcoin: 10 * time.Second,
		Ports: devstack.Ports{
			API: ports[0], Page: ports[1], Dashboard: ports[2], Receiver: ports[3], UI: ports[4], Temporal: ports[5],
			Postgres: ports[6], Health: ports[7],
		},
	}}
	args := []string{"-live-double", "-data", r.options.Dir}
	for i, name := range []string{"api", "page", "dashboard", "receiver", "ui", "temporal", "postgres", "health"} {
		args = append(args, fmt.Sprintf("-%s-port=%d", name, ports[i]))
	}
	r.process = must.Get(devstack.Program{
		Name: "the release", Path: program, Args: args, Env: append(settings, "CHECKOUT_RECONCILE_INTERVAL=2s"),
		Log: filepath.Join(t.TempDir(), "log"),
	}.Start())(t)
	t.Cleanup(func() { _ = r.process.Stop(time.Minute) }) // Stop kills a process that does not end
	e2e.Await(t, "the release runs", 5*time.Minute, func() bool {
		require.NoError(t, r.process.Err())
		at, err := devstack.At(r.options)
		r.stack = at
		return err == nil
	})
	text := must.Get(os.ReadFile(r.stack.EnvironmentFile()))(t)
	r.settings = strings.Fields(string(text))

	at := "127.0.0.1:" + strconv.Itoa(ports[8])
	created := r.post(r.stack.Demo.APIKey, "/v1/webhooks", fmt.Sprintf(`{"url": "http://%s/webhook", "events": ["*"]}`, at))
	r.receiver = must.Get(devstack.StartReceiver(at, created["secret"].(string)))(t)
	t.Cleanup(r.receiver.Close)
	r.log = must.Get(devstack.OpenReceiverLog(r.stack.ReceiverLogFile()))(t)
	r.receiver.LogTo(r.log)
	return r
}

// post makes a request to the release's API, whose answers need not match this version's document.
func (r *release) post(key, path, body string) (answer map[string]any) {
	got := e2e.Ask(r.t, http.MethodPost, r.stack.APIURL()+path, body,
		"Authorization", "Bearer "+key, "Content-Type", "application/json")
	require.Equal(r.t, 2, got.Status/100, string(got.Body))
	require.NoError(r.t, json.Unmarshal(got.Body, &answer))
	return answer
}

func (r *release) create(key string, c money.PayoutCurrency) string {
	return r.post(key, "/v1/checkout", terms(c))["id"].(string)
}

// merchant is the demo merchant in test mode, and live in live mode.
func (r *release) merchant(stack *devstack.Stack, key string) live {
	return live{&e2e.Merchant{T: r.t, Stack: stack, ID: stack.Demo.MerchantID, Key: key, Receiver: r.receiver}}
}

// leaveWork leaves open sessions, refused deliveries, a bulk replay and live payouts in flight.
func (r *release) leaveWork() {
	demo := r.stack.Demo
	m := r.merchant(r.stack, demo.APIKey)
	for range 10 { // the bulk replay sends these events again
		m.MustPay(r.create(demo.APIKey, money.USDC), e2e.CardSucceeds)
	}
	m.Arrivals(20, 30*time.Second)
	e2e.AwaitQuery(r.t, "everything is delivered", 30*time.Second, r.stack, 40, `SELECT count(*) FROM webhook_delivery WHERE status = 'delivered'`)

	r.receiver.Answer(http.StatusInternalServerError)
	refused := r.create(demo.APIKey, money.USDC)
	m.MustPay(refused, e2e.CardDeclined)
	m.MustPay(refused, e2e.CardSucceeds)
	e2e.Await(r.t, "three deliveries are refused", 30*time.Second, func() bool {
		r.refused = e2e.Query[[]string](r.t, r.stack, `
			SELECT coalesce(array_agg(d.id), '{}') FROM webhook_delivery d JOIN webhook_attempt a ON a.delivery_id = d.id
			WHERE d.status = 'pending' AND a.duration_ms IS NOT NULL`)
		return len(r.refused) == 3 // failed, completed, payout.sent
	})
	for range 3 {
		r.pending = append(r.pending, r.create(demo.APIKey, money.ETH))
		asked := r.create(demo.APIKey, money.USDT)
		m.MustPay(asked, e2e.Card3DS)
		r.asked = append(r.asked, asked)
	}
	r.leavePayouts()

	since := time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	replay := r.post(demo.APIKey, "/v1/webhooks/"+demo.EndpointID+"/replay",
		fmt.Sprintf(`{"since": %q, "status": "delivered", "rate": 1}`, since))
	r.replay = "/v1/replays/" + replay["id"].(string)
	e2e.Await(r.t, "the bulk replay has begun", 30*time.Second, func() bool {
		return e2e.Query[int](r.t, r.stack, `SELECT count(*) FROM webhook_delivery WHERE run > 1`) > 2
	})
}

// leavePayouts pays live sessions. The chain of Ethereum stands still, so none of its transfers is mined, and payouts
// in bitcoins wait for their batch.
func (r *release) leavePayouts() {
	node := must.Get(rpc.DialContext(r.t.Context(), env.ToMap(r.settings)["CHECKOUT_ETHEREUM_RPC_URLS"]))(r.t)
	defer node.Close()
	require.NoError(r.t, node.CallContext(r.t.Context(), nil, "evm_setIntervalMining", 0))
	key := r.stack.Demo.LiveKey
	l := r.merchant(r.stack, key)
	for _, c := range []money.PayoutCurrency{money.USDC, money.ETH, money.BTC} {
		id := r.create(key, c)
		token := tokenOf(r.t, env.ToMap(r.settings)["CHECKOUT_STRIPE_JS_URL"], cardSucceeds)
		l.send(id, url.Values{"email": {"ann@example.com"}, "confirmation_token": {token}})
		r.live = append(r.live, id)
	}
	e2e.AwaitQuery(r.t, "transfers are signed", time.Minute, r.stack, 2, `SELECT count(*) FROM transfer t JOIN treasury_account a ON a.id = t.account_id WHERE a.network = 'ethereum'`)
}

// upgrade stops the release and starts this version on its data. devstack runs what "checkout setup" does first.
func (r *release) upgrade(settings ...string) *devstack.Stack {
	require.NoError(r.t, r.process.Stop(time.Minute))
	require.NoError(r.t, r.log.Close())
	r.options.Env = append(settings, "CHECKOUT_RECONCILE_INTERVAL=2s")
	stack := e2e.OwnStack(r.t, r.options)
	r.receiver.LogTo(stack.ReceiverLog)
	return stack
}

func (r *release) startFormerWorker(stack *devstack.Stack) *devstack.Process {
	process := must.Get(devstack.Program{
		Name: "the former worker", Path: r.program, Log: stack.Log("former"),
		Env: append(stack.OperatorsEnvironment(), formerBuild, "CHECKOUT_DEVSTACK_COMMAND=worker"),
	}.Start())(r.t)
	r.t.Cleanup(process.Kill)
	return process
}

// requireAllEnds ends what was in flight, and requires that nothing was lost and nothing done twice.
func (r *release) requireAllEnds(stack *devstack.Stack) {
	t := r.t
	m, l := r.merchant(stack, stack.Demo.APIKey), r.merchant(stack, stack.Demo.LiveKey)
	r.receiver.Answer(http.StatusOK)
	for _, id := range r.pending {
		m.MustPay(id, e2e.CardSucceeds)
	}
	for _, id := range r.asked {
		m.Confirm(e2e.Query[string](t, stack, `SELECT action_url FROM transaction WHERE session_id = $1`, id))
	}
	for _, id := range append(r.pending, r.asked...) {
		m.AwaitStatus(id, checkout.StatusCompleted, 20*time.Second)
		require.Equal(t, 1, m.Charges(id))
	}
	m.Complete(m.Create(e2e.Terms))

	for _, id := range r.refused {
		m.Must(http.StatusAccepted, http.MethodPost, "/v1/deliveries/"+id+"/retry_now", "")
		got := m.AwaitDelivery(id, "status", string(webhook.DeliveryDelivered), time.Minute)
		require.EqualValues(t, 1, got.Field("run"), "the run was not started again")
	}
	e2e.Await(t, "the bulk replay is completed", 2*time.Minute, func() bool {
		got := m.Must(http.StatusOK, http.MethodGet, r.replay, "")
		return got.Field("status") == "completed" && got.Field("started") == got.Field("total")
	})
	for _, id := range r.live {
		e2e.Await(t, "the payout of "+id+" is final", 3*time.Minute, func() bool { return l.confirmed(id) })
		_, charges := l.facts(id)
		require.Len(t, charges, 1)
	}
	for _, c := range []money.PayoutCurrency{money.USDC, money.BTC} { // the payee starts with ether
		paid := e2e.Query[string](t, stack, `SELECT sum(amount::numeric)::text FROM payout WHERE mode = 'live' AND currency = $1`, c)
		require.Equal(t, decimal.RequireFromString(paid).String(), l.balance(c).String(), "%s arrived once", c)
	}
	e2e.RequireInvariants(t, stack, "30s,5m,30m,2h,12h")
}
