package e2e

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/devstack"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// examples are the receivers that merchants start from.
var examples = []struct {
	name, file string // below deploy/receivers
	program    func(t *testing.T, file string) (path string, args []string)
	// forget makes it look as if the program had died before any event was processed.
	forget func(t *testing.T, dir string)
}{
	{"go", "go/main.go", goProgram, forgetMarks},
	{"node", "node/receiver.mjs", interpreted("node", "nodejs"), forgetMarks},
	{"python", "python/receiver.py", interpreted("python3", "python3"), func(t *testing.T, dir string) {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), "python3", "-c", `import sqlite3
with sqlite3.connect("`+filepath.Join(dir, "webhook-events.db")+`") as db: db.execute("UPDATE event SET processed_at = NULL")`).CombinedOutput()
		require.NoError(t, err, string(out))
	}},
}

func goProgram(t *testing.T, file string) (string, []string) {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "receiver")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "./"+filepath.Dir(file)).CombinedOutput()
	require.NoError(t, err, string(out))
	return binary, nil
}

// interpreted returns how a program of an interpreter is run, which is in the Debian package of that name.
func interpreted(interpreter, debian string) func(*testing.T, string) (string, []string) {
	return func(t *testing.T, file string) (string, []string) {
		t.Helper()
		path, err := exec.LookPath(interpreter)
		if err != nil && testing.Short() {
			t.Skipf("%s is missing, and -short was given", interpreter)
		}
		require.NoError(t, err, "%s is missing; on Debian: apt-get install %s. With -short its receiver is not tested.", interpreter, debian)
		whole, err := filepath.Abs(file)
		require.NoError(t, err)
		return path, []string{whole}
	}
}

func forgetMarks(t *testing.T, dir string) {
	t.Helper()
	marks, err := filepath.Glob(filepath.Join(dir, "webhook-events", "*.done"))
	require.NoError(t, err)
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
}

// newExample prepares the receiver of a name; it does not run yet.
func newExample(t *testing.T, file string, program func(*testing.T, string) (string, []string)) *example {
	t.Helper()
	path, args := program(t, filepath.Join("..", "receivers", file))
	ports, err := devstack.Free(1)
	require.NoError(t, err)
	dir := t.TempDir()
	x := &example{t: t, address: fmt.Sprintf("127.0.0.1:%d", ports[0])}
	x.url = "http://" + x.address + "/webhook"
	x.program = devstack.Program{Name: file, Path: path, Args: args, Dir: dir, Log: filepath.Join(dir, "log")}
	t.Cleanup(func() {
		if x.process != nil {
			x.process.Kill()
		}
	})
	return x
}

// start runs the receiver with a secret.
func (x *example) start(secret string) {
	x.t.Helper()
	_, port, _ := strings.Cut(x.address, ":")
	x.program.Env = []string{"WEBHOOK_SECRET=" + secret, "PORT=" + port}
	var err error
	x.process, err = x.program.Start()
	require.NoError(x.t, err)
	await(x.t, "the receiver listens", 30*time.Second, func() bool {
		require.NoError(x.t, x.process.Err())
		res, err := http.Get("http://" + x.address + "/") // nothing is there
		if err != nil {
			return false
		}
		require.NoError(x.t, res.Body.Close())
		return res.StatusCode >= 400
	})
}

// stop ends the receiver as a service manager does; it must end well.
func (x *example) stop() {
	x.t.Helper()
	require.NoError(x.t, x.process.Stop(20*time.Second))
	require.ErrorContains(x.t, x.process.Err(), "(exit status 0)")
}

var processedLine = regexp.MustCompile(`(?m)^processed (evt_\w+) (\S+)$`)

// processed returns how often each event was processed, by "id type".
func (x *example) processed() map[string]int {
	x.t.Helper()
	text, err := os.ReadFile(x.program.Log)
	require.NoError(x.t, err)
	times := map[string]int{}
	for _, line := range processedLine.FindAllStringSubmatch(string(text), -1) {
		times[line[1]+" "+line[2]]++
	}
	return times
}

// post sends what a delivery, or whoever pretends to be one, sends.
func (x *example) post(body string, signatures ...string) int {
	x.t.Helper()
	req, err := http.NewRequestWithContext(x.t.Context(), http.MethodPost, x.url, strings.NewReader(body))
	require.NoError(x.t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header[webhook.SignatureHeader] = signatures
	res, err := http.DefaultClient.Do(req)
	require.NoError(x.t, err)
	require.NoError(x.t, res.Body.Close())
	return res.StatusCode
}

// TestReceivers_ProcessEachEventOnce takes each example through a merchant's first days: a payment, a replay, a restart
// and a rotated secret.
func TestReceivers_ProcessEachEventOnce(t *testing.T) {
	t.Parallel()
	for _, e := range examples {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			x := newExample(t, e.file, e.program)
			m := newMerchant(t, shared)
			m.must(http.StatusOK, http.MethodDelete, "/v1/webhooks/"+m.registration(), "")
			registered := m.must(http.StatusCreated, http.MethodPost, "/v1/webhooks", `{"url": "`+x.url+`", "events": ["*"]}`)
			endpoint, secret := registered.field("id").(string), registered.field("secret").(string)
			x.start(secret)

			session := m.create(terms)
			m.mustPay(session, cardSucceeds)
			want := map[string]int{}
			var deliveries []string
			for _, typ := range []string{"checkout.completed", "payout.sent"} {
				await(t, typ+" is there", 20*time.Second, func() bool {
					return query[int](t, shared, `SELECT count(*) FROM event WHERE session_id = $1 AND type = $2`, session, typ) == 1
				})
				delivery := deliveryOf(t, shared, session, typ)
				deliveries = append(deliveries, delivery)
				got := m.awaitDelivery(delivery, "status", "delivered", 20*time.Second)
				want[got.field("event_id").(string)+" "+typ] = 1
			}
			await(t, "both are processed", 10*time.Second, func() bool { return len(x.processed()) == 2 })
			require.Equal(t, want, x.processed())

			replay := func(run int) {
				t.Helper()
				for _, delivery := range deliveries {
					await(t, "the replay is accepted", 10*time.Second, func() bool { // the run ends a moment after its row: 409 until then
						got, err := m.call(http.MethodPost, "/v1/deliveries/"+delivery+"/replay", "")
						return err == nil && got.Status == http.StatusAccepted
					})
					await(t, "the replay is delivered", 20*time.Second, func() bool {
						got := m.must(http.StatusOK, http.MethodGet, "/v1/deliveries/"+delivery, "")
						return got.field("status") == "delivered" && got.field("run") == float64(run)
					})
					require.Equal(t, []int32{200}, query[[]int32](t, shared, `SELECT array_agg(status_code) FROM webhook_attempt WHERE delivery_id = $1 AND run = $2`, delivery, run))
				}
			}
			replay(2)
			x.stop() // what had begun is finished
			require.Equal(t, want, x.processed(), "a duplicate is not processed")
			x.start(secret)
			replay(3)
			x.stop()
			require.Equal(t, want, x.processed(), "it remembers after a restart")

			// While a rotation lasts there are two v1: the old secret still works, and the new one does already.
			rotated := m.must(http.StatusOK, http.MethodPost, "/v1/webhooks/"+endpoint+"/rotate_secret", `{"overlap_hours": 1}`).field("secret").(string)
			for _, secret := range []string{secret, rotated} {
				x.start(secret)
				sent := m.must(http.StatusAccepted, http.MethodPost, "/v1/webhooks/"+endpoint+"/test", "")
				m.awaitDelivery(sent.field("delivery.id").(string), "status", "delivered", 20*time.Second)
				want[sent.field("event.id").(string)+" checkout.completed"] = 1
				x.stop()
				require.Equal(t, want, x.processed())
			}

			// What was answered and not processed when the program died is processed at its next start.
			e.forget(t, x.program.Dir)
			x.start(rotated)
			x.stop()
			for event := range want {
				want[event] = 2
			}
			require.Equal(t, want, x.processed())
		})
	}
}

// signed is a request to a receiver and what it must be answered.
type signed struct {
	name    string
	headers []string // X-Service-Signature
	body    string
	want    int
}

// forged are requests that nobody but the service can make, and others. Everything that is signed is signed with secret.
func forged(secret string) []signed {
	key, now := []byte(secret), time.Now()
	body := func() string {
		return `{"id":"` + checkout.NewID(checkout.PrefixEvent) + `","type":"checkout.completed","data":{"note":"Zoë \u0000"}}`
	}
	sign := func(text string, ago time.Duration) string { return webhook.Sign(key, now.Add(-ago), []byte(text)) }
	var all []signed
	add := func(want int, name, body string, headers ...string) {
		all = append(all, signed{name, headers, body, want})
	}
	// with adds a good request whose header was changed.
	with := func(want int, name string, change func(header, t, v1 string) string) {
		text := body()
		header := sign(text, 0)
		t, v1, _ := strings.Cut(header, ",")
		add(want, name, text, change(header, t, v1))
	}
	zeros := "v1=" + strings.Repeat("0", 64)

	with(200, "right", func(header, _, _ string) string { return header })
	with(200, "two v1, the first right", func(header, _, _ string) string { return header + "," + zeros })
	with(200, "two v1, the second right", func(_, t, v1 string) string { return t + "," + zeros + "," + v1 })
	with(200, "an unknown scheme beside", func(header, _, _ string) string { return header + ",v2=abc" })
	text := body()
	add(200, "290 s old", text, sign(text, 290*time.Second))
	text = body()
	add(200, "280 s in the future", text, sign(text, -280*time.Second))

	text = body()
	add(400, "wrong secret", text, webhook.Sign([]byte(webhook.NewSecret()), now, []byte(text)))
	text = body()
	add(400, "the digest of a secret that is not ours", text, webhook.Sign(webhook.SecretDigest("whsec_"), now, []byte(text)))
	text = body()
	add(400, "changed body", strings.Replace(text, "completed", "failed", 1), sign(text, 0))
	text = body()
	add(400, "white space in the body", text+"\n", sign(text, 0))
	text = body()
	add(400, "no body", "", sign(text, 0))
	text = body()
	add(400, "301 s old", text, sign(text, 301*time.Second))
	text = body()
	add(400, "330 s in the future", text, sign(text, -330*time.Second)) // 30 s for this test to get here
	add(400, "no header", body())
	add(400, "empty header", body(), "")
	add(400, "garbage", body(), "garbage")
	add(400, "only commas", body(), ",=,,=")
	text = body()
	add(400, "two headers, the first right", text, sign(text, 0), "t=1,"+zeros)
	text = body()
	add(400, "two headers, the second right", text, "t=1,"+zeros, sign(text, 0))
	with(400, "another t", func(_, _, v1 string) string { return "t=" + strconv.FormatInt(now.Unix()+1, 10) + "," + v1 })
	with(400, "two t, both right", func(header, t, _ string) string { return t + "," + header })
	with(400, "two t, the second old", func(header, _, _ string) string { return header + ",t=1" })
	with(400, "two t, the first old", func(header, _, _ string) string { return "t=1," + header })
	with(400, "no t", func(_, _, v1 string) string { return v1 })
	with(400, "empty t", func(_, _, v1 string) string { return "t=," + v1 })
	with(400, "t in milliseconds", func(_, t, v1 string) string { return t + "000," + v1 })
	with(400, "t is text", func(_, _, v1 string) string { return "t=now," + v1 })
	with(400, "t in hexadecimal", func(_, _, v1 string) string { return fmt.Sprintf("t=0x%x,%s", now.Unix(), v1) })
	with(400, "t with a fraction", func(_, t, v1 string) string { return t + ".0," + v1 })
	with(400, "t with an exponent", func(_, t, v1 string) string { return t + "e0," + v1 })
	with(400, "t in other digits", func(_, _, v1 string) string { return "t=٣," + v1 })
	with(400, "t of 6,000 digits", func(_, _, v1 string) string { return "t=" + strings.Repeat("9", 6000) + "," + v1 })
	with(400, "t with something behind", func(_, t, v1 string) string { return t + "=1," + v1 })
	with(400, "v1 with something behind", func(header, _, _ string) string { return header + "=1" })
	with(400, "no v1", func(_, t, _ string) string { return t })
	with(400, "empty v1", func(_, t, _ string) string { return t + ",v1=" })
	with(400, "v1 without =", func(_, t, _ string) string { return t + ",v1" })
	with(400, "upper-case v1", func(_, t, v1 string) string { return t + ",v1=" + strings.ToUpper(v1[3:]) })
	with(400, "short v1", func(header, _, _ string) string { return header[:len(header)-2] })
	with(400, "long v1", func(header, _, _ string) string { return header + "00" })
	with(400, "v1 with a letter that is not hexadecimal", func(header, _, _ string) string { return header[:len(header)-1] + "g" })
	with(400, "v1 beyond ASCII", func(_, t, _ string) string { return t + ",v1=" + strings.Repeat("é", 32) })
	with(400, "another scheme only", func(_, t, v1 string) string { return t + ",v0" + v1[2:] })
	with(400, "capital names", func(header, _, _ string) string { return strings.ToUpper(header[:1]) + header[1:] })
	with(400, "a space within", func(_, t, v1 string) string { return t + ", " + v1 })

	text = body()
	text += strings.Repeat(" ", 1<<20-len(text))
	add(200, "1 MiB", text, sign(text, 0))
	text += " "
	add(400, "1 MiB and a byte", text, sign(text, 0))
	// The service signs no such thing. Its secret in other hands could.
	for name, text := range map[string]string{
		"no JSON": "{", "an array": "[]", "null": "null", "a number": "7", "no id": "{}", "id is a number": `{"id":7}`, "id is null": `{"id":null}`,
		"id of something else": `{"id":"cs_1"}`, "id is a path": `{"id":"evt_/../../x"}`, "id with a line": `{"id":"evt_1\n"}`, "id is empty": `{"id":""}`,
		"id has no end": `{"id":"evt_"}`, "not UTF-8": "\xff\xfe",
	} {
		add(400, "signed: "+name, text, sign(text, 0))
	}
	return all
}

// TestReceivers_RefuseWhatIsForged: the three examples say the same of every request, and what they refuse is never
// processed.
func TestReceivers_RefuseWhatIsForged(t *testing.T) {
	t.Parallel()
	secret := webhook.NewSecret()
	for _, e := range examples {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			x := newExample(t, e.file, e.program)
			x.start(secret)
			verdicts, processed := map[string]int{}, map[string]int{}
			all := forged(secret)
			for _, c := range all {
				if got := x.post(c.body, c.headers...); got != c.want {
					verdicts[c.name] = got
				}
				if c.want == http.StatusOK {
					require.NoError(t, webhook.Verify(secret, c.headers[0], []byte(c.body), time.Now()), "%s: the service's own verifier", c.name)
					processed[c.body[len(`{"id":"`):strings.Index(c.body, `","type"`)]+" checkout.completed"] = 1
				}
			}
			require.Empty(t, verdicts, "they differ from the table")
			t.Logf("%d requests, %d of them accepted", len(all), len(processed))
			x.stop()
			require.Equal(t, processed, x.processed())
		})
	}
}

// TestReceivers_AreWhatTheREADMEShows: its snippets are parts of the programs that are tested here.
func TestReceivers_AreWhatTheREADMEShows(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	_, section, _ := strings.Cut(string(readme), "\n## Verify a signature\n")
	section, _, _ = strings.Cut(section, "\n## ")
	snippets := regexp.MustCompile("(?s)```\\w+\n(.*?)```").FindAllStringSubmatch(section, -1)
	require.Len(t, snippets, len(examples))
	for i, e := range examples {
		program, err := os.ReadFile(filepath.Join("..", "receivers", e.file))
		require.NoError(t, err)
		require.Contains(t, string(program), snippets[i][1], e.name)
		require.Contains(t, section, "deploy/receivers/"+e.file, "the README leads there")
	}
}
