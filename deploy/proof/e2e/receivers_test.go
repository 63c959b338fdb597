package e2e_test

import (
	"fmt"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/proof/e2e"
	"example.com/checkout/deploy/standin/devstack"
	"example.com/checkout/deploy/standin/need"
	"example.com/checkout/storage/pgtemp"
	"example.com/checkout/storage/storagetest/must"
)

// examples are the receivers that merchants start from.
var examples = []struct {
	name, file string // below deploy/release
	verifies   string // the file that verifies, from the root
	program    func(t *testing.T, file string) (path string, args []string)
	// forget makes it look as if the program had died before any event was processed.
	forget func(t *testing.T, dir string)
	sells  bool // it also creates sessions
}{
	{"go", "examples/go/main.go", "api/sdk/webhook.go", goProgram, forgetMarks, true},
	{"typescript", "examples/typescript/shop.ts", "api/sdk/typescript/src/webhook.ts", typeScriptProgram, forgetMarks, true},
	{"python", "receivers/python/receiver.py", "deploy/release/receivers/python/receiver.py", pythonProgram, func(t *testing.T, dir string) {
		run(t, dir, []string{"python3", "-c", `import sqlite3
with sqlite3.connect("webhook-events.db") as db: db.execute("UPDATE event SET processed_at = NULL")`})
	}, false},
}

func goProgram(t *testing.T, file string) (string, []string) {
	binary := filepath.Join(t.TempDir(), "receiver")
	run(t, filepath.Dir(file), []string{"go", "build", "-o", binary})
	return binary, nil
}

func pythonProgram(t *testing.T, file string) (string, []string) {
	return need.Program(t, "apt-get install python3", "python3"), []string{file}
}

func forgetMarks(t *testing.T, dir string) {
	marks := must.Get(filepath.Glob(filepath.Join(dir, "webhook-events", "*.done")))(t)
	require.NotEmpty(t, marks)
	for _, mark := range marks {
		require.NoError(t, os.Remove(mark))
	}
}

// example is a receiver that runs as a process of its own.
type example struct {
	t       *testing.T
	program devstack.Program
	process *devstack.Process
	address string
	url     string
	key     string // of the API; only a program that sells needs it
}

// newExample prepares a receiver; it does not run yet.
func newExample(t *testing.T, path string, args []string) *example {
	ports := must.Get(pgtemp.FreePorts(1))(t)
	dir := t.TempDir()
	x := &example{t: t, key: "none", address: fmt.Sprintf("127.0.0.1:%d", ports[0])}
	x.url = "http://" + x.address + "/webhook"
	x.program = devstack.Program{Name: "receiver", Path: path, Args: args, Dir: dir, Log: filepath.Join(dir, "log")}
	t.Cleanup(func() {
		if x.process != nil {
			x.process.Kill()
		}
	})
	return x
}

func (x *example) start(secret string) {
	_, port, _ := strings.Cut(x.address, ":")
	x.program.Env = []string{
		"WEBHOOK_SECRET=" + secret, "PORT=" + port, "CHECKOUT_API_URL=" + e2e.Shared.APIURL(), "CHECKOUT_API_KEY=" + x.key,
	}
	x.process = must.Get(x.program.Start())(x.t)
	e2e.Await(x.t, "the receiver listens", 30*time.Second, func() bool {
		require.NoError(x.t, x.process.Err())
		got, _ := e2e.Try(http.MethodGet, "http://"+x.address+"/", "") // nothing is there
		return got.Status >= 400
	})
}

// stop ends the receiver as a service manager does; it must end well.
func (x *example) stop() {
	require.NoError(x.t, x.process.Stop(20*time.Second))
	require.ErrorContains(x.t, x.process.Err(), "(exit status 0)")
}

var (
	processedLine = regexp.MustCompile(`(?m)^processed (evt_\w+) ?(.*)$`)
	fulfilledLine = regexp.MustCompile(`(?m)^fulfilled (\S+)$`)
)

func (x *example) logged(line *regexp.Regexp) [][]string {
	text := must.Get(os.ReadFile(x.program.Log))(x.t)
	return line.FindAllStringSubmatch(string(text), -1)
}

// processed returns how often each event was processed, by "id type".
func (x *example) processed() map[string]int {
	times := map[string]int{}
	for _, line := range x.logged(processedLine) {
		times[line[1]+" "+line[2]]++
	}
	return times
}

// buys is a customer who buys something. It returns the session, and the order that is to be fulfilled.
func (x *example) buys(m *e2e.Merchant) (session string, orders []string) {
	res := e2e.PostForm(x.t, "http://"+x.address+"/shop", nil)
	require.Equal(x.t, http.StatusSeeOther, res.Status)
	session = path.Base(res.Header.Get("Location"))
	got := m.Session(session)
	require.Equal(x.t, res.Header.Get("Location"), got.Field("url"), "the customer is sent to the hosted page")
	require.Equal(x.t, "59.97", fmt.Sprintf("%.2f", got.Field("amount")))
	return session, []string{got.Field("metadata.order_id").(string)}
}

func (x *example) fulfilled() (orders []string) {
	for _, line := range x.logged(fulfilledLine) {
		orders = append(orders, line[1])
	}
	return orders
}

// TestReceivers runs each example: what it makes of forged requests, and a merchant's first days with it.
func TestReceivers(t *testing.T) {
	t.Parallel()
	for _, e := range examples {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			path, args := e.program(t, e2e.Path("deploy", "release", e.file))
			t.Run("gives the same verdict as the others", func(t *testing.T) {
				t.Parallel()
				newExample(t, path, args).judgesAlike()
			})
			t.Run("processes each event once", func(t *testing.T) {
				t.Parallel()
				x := newExample(t, path, args)
				x.processesOnce(e.sells, func() { e.forget(t, x.program.Dir) })
			})
		})
	}
}

// processesOnce takes the example through a payment, a replay, a restart and a rotated secret. A program that sells
// gets the payment of an order, and fulfils it once.
func (x *example) processesOnce(sells bool, forget func()) {
	t := x.t
	m := e2e.NewMerchant(t, e2e.Shared)
	m.Must(http.StatusOK, http.MethodDelete, "/v1/webhooks/"+m.Registration(), "")
	registered := m.Must(http.StatusCreated, http.MethodPost, "/v1/webhooks", `{"url": "`+x.url+`", "events": ["*"]}`)
	endpoint, secret := registered.Field("id").(string), registered.Field("secret").(string)
	x.key = m.Key
	x.start(secret)

	var session string
	var orders []string
	if sells {
		session, orders = x.buys(m)
	} else {
		session = m.Create(e2e.Terms)
	}
	require.Empty(t, x.fulfilled())
	m.MustPay(session, e2e.CardSucceeds)
	want := map[string]int{}
	var deliveries []string
	for _, typ := range []string{"checkout.completed", "payout.sent"} {
		e2e.AwaitQuery(t, typ+" is there", 20*time.Second, e2e.Shared, 1, `SELECT count(*) FROM event WHERE session_id = $1 AND type = $2`, session, typ)
		delivery := e2e.DeliveryOf(t, e2e.Shared, session, typ)
		deliveries = append(deliveries, delivery)
		got := m.AwaitDelivery(delivery, "status", "delivered", 20*time.Second)
		want[got.Field("event_id").(string)+" "+typ] = 1
	}
	e2e.Await(t, "both are processed", 10*time.Second, func() bool { return len(x.processed()) == 2 })
	require.Equal(t, want, x.processed())

	replay := func(run int) {
		for _, delivery := range deliveries {
			e2e.Await(t, "the replay is accepted", 10*time.Second, func() bool { // the run ends a moment after its row: 409 until then
				got, err := m.Call(http.MethodPost, "/v1/deliveries/"+delivery+"/replay", "")
				return err == nil && got.Status == http.StatusAccepted
			})
			m.AwaitDelivery(delivery, "run", float64(run), 20*time.Second)
			m.AwaitDelivery(delivery, "status", "delivered", 20*time.Second)
			require.Equal(t, []int32{200}, e2e.Query[[]int32](t, e2e.Shared, `SELECT array_agg(status_code) FROM webhook_attempt WHERE delivery_id = $1 AND run = $2`, delivery, run))
		}
	}
	replay(2)
	x.stop() // what had begun is finished
	require.Equal(t, want, x.processed(), "a duplicate is not processed")
	x.start(secret)
	replay(3)
	x.stop()
	require.Equal(t, want, x.processed(), "it remembers after a restart")
	require.Equal(t, orders, x.fulfilled())

	// While a rotation lasts there are two v1: the old secret still works, and the new one does already.
	rotated := m.Must(http.StatusOK, http.MethodPost, "/v1/webhooks/"+endpoint+"/rotate_secret", `{"overlap_hours": 1}`).Field("secret").(string)
	for _, secret := range []string{secret, rotated} {
		x.start(secret)
		sent := m.Must(http.StatusAccepted, http.MethodPost, "/v1/webhooks/"+endpoint+"/test", "")
		m.AwaitDelivery(sent.Field("delivery.id").(string), "status", "delivered", 20*time.Second)
		want[sent.Field("event.id").(string)+" checkout.completed"] = 1
		x.stop()
		require.Equal(t, want, x.processed())
	}

	// What was answered and not processed when the program died is processed at its next start.
	forget()
	x.start(rotated)
	x.stop()
	for event := range want {
		want[event] = 2
	}
	require.Equal(t, want, x.processed())
	require.Equal(t, orders, x.fulfilled(), "what is processed again is not fulfilled again")
}

// TestReceivers_AreWhatTheGuideShows: the snippets of the merchant's guide are parts of the programs that are tested
// here.
func TestReceivers_AreWhatTheGuideShows(t *testing.T) {
	t.Parallel()
	guide := must.Get(os.ReadFile(e2e.Path("api", "README.md")))(t)
	_, section, _ := strings.Cut(string(guide), "\n## Verify a signature\n")
	section, _, _ = strings.Cut(section, "\n## ")
	snippets := regexp.MustCompile("(?s)```\\w+\n(.*?)```").FindAllStringSubmatch(section, -1)
	require.Len(t, snippets, len(examples))
	for i, e := range examples {
		program := must.Get(os.ReadFile(e2e.Path(e.verifies)))(t)
		require.Contains(t, string(program), snippets[i][1], e.name)
		require.Contains(t, section, e.verifies, "the guide leads there")
	}
}

// typeScriptProgram builds the SDK for TypeScript, packs it, installs it from the package into a copy of the shop at
// file, and compiles the shop.
func typeScriptProgram(t *testing.T, file string) (string, []string) {
	node := need.Program(t, "apt-get install nodejs", "node")
	need.Program(t, "apt-get install npm", "npm")
	packages := npmPackages(t)
	compiler := filepath.Join(packages, "typescript", "bin", "tsc")
	dir := t.TempDir()
	sdk, shop := filepath.Join(dir, "sdk"), filepath.Join(dir, "shop")
	require.NoError(t, os.CopyFS(sdk, os.DirFS(e2e.Path("api", "sdk", "typescript"))))
	require.NoError(t, os.CopyFS(shop, os.DirFS(filepath.Dir(file))))
	require.NoError(t, os.Symlink(packages, filepath.Join(sdk, "node_modules")))
	run(t, sdk, []string{"node", compiler})
	run(t, sdk, []string{"npm", "pack", "--silent"})
	run(t, shop, []string{
		"npm", "install", "--no-save", "--prefer-offline", "--ignore-scripts", "--no-audit", "--no-fund",
		filepath.Join(sdk, "checkout-sdk-1.0.0.tgz"),
	})
	run(t, shop, []string{"node", compiler, "--typeRoots", filepath.Join(packages, "@types")})
	return node, []string{filepath.Join(shop, "out", "shop.js")}
}
