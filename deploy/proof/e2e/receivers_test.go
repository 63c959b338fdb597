package e2e_test

import (
	"bufio"
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/proof/e2e"
	"example.com/checkout/deploy/standin/devstack"
	"example.com/checkout/deploy/standin/need"
	"example.com/checkout/storage/pgtemp"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
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
	{"python", "receivers/python/receiver.py", "deploy/release/receivers/python/receiver.py", interpreted("python3", "python3"), func(t *testing.T, dir string) {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), "python3", "-c", `import sqlite3
with sqlite3.connect("`+filepath.Join(dir, "webhook-events.db")+`") as db: db.execute("UPDATE event SET processed_at = NULL")`).CombinedOutput()
		require.NoError(t, err, string(out))
	}, false},
}

// built holds the built examples by file: a build takes longer than its tests.
var built = struct {
	sync.Mutex
	programs map[string]string
}{programs: map[string]string{}}

// builtOnce returns the program that build makes in an empty directory, of this process's first call for the file.
func builtOnce(t *testing.T, file string, build func(dir string) (program string)) string {
	t.Helper()
	built.Lock()
	defer built.Unlock()
	if built.programs[file] == "" {
		dir, err := e2e.MkdirTemp()
		require.NoError(t, err)
		built.programs[file] = build(dir)
	}
	return built.programs[file]
}

func goProgram(t *testing.T, file string) (string, []string) {
	t.Helper()
	return builtOnce(t, file, func(dir string) string {
		binary := filepath.Join(dir, "receiver")
		out, err := exec.CommandContext(t.Context(), "go", "build", "-C", filepath.Dir(file), "-o", binary).CombinedOutput()
		require.NoError(t, err, string(out))
		return binary
	}), nil
}

// interpreted returns how a program of an interpreter is run, which is in the Debian package of that name.
func interpreted(interpreter, debian string) func(*testing.T, string) (string, []string) {
	return func(t *testing.T, file string) (string, []string) {
		t.Helper()
		path := need.Program(t, "apt-get install "+debian, interpreter)
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
	key     string // of the API; only a program that sells needs it
}

// newExample prepares the receiver of a name; it does not run yet.
func newExample(t *testing.T, file string, program func(*testing.T, string) (string, []string)) *example {
	t.Helper()
	path, args := program(t, e2e.Path("deploy", "release", file))
	ports, err := pgtemp.FreePorts(1)
	require.NoError(t, err)
	dir := t.TempDir()
	x := &example{t: t, key: "none", address: fmt.Sprintf("127.0.0.1:%d", ports[0])}
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
	x.program.Env = []string{
		"WEBHOOK_SECRET=" + secret, "PORT=" + port, "CHECKOUT_API_URL=" + e2e.Shared.APIURL(), "CHECKOUT_API_KEY=" + x.key,
	}
	var err error
	x.process, err = x.program.Start()
	require.NoError(x.t, err)
	e2e.Await(x.t, "the receiver listens", 30*time.Second, func() bool {
		require.NoError(x.t, x.process.Err())
		got, _ := e2e.Try(http.MethodGet, "http://"+x.address+"/", "") // nothing is there
		return got.Status >= 400
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

// buys is a customer who buys something. It returns the session, and the order that is to be fulfilled.
func (x *example) buys(m *e2e.Merchant) (session string, orders []string) {
	x.t.Helper()
	res := e2e.PostForm(x.t, "http://"+x.address+"/shop", nil)
	require.Equal(x.t, http.StatusSeeOther, res.Status)
	session = path.Base(res.Header.Get("Location"))
	got := m.Session(session)
	require.Equal(x.t, res.Header.Get("Location"), got.Field("url"), "the customer is sent to the hosted page")
	require.Equal(x.t, "59.97", fmt.Sprintf("%.2f", got.Field("amount")))
	return session, []string{got.Field("metadata.order_id").(string)}
}

var fulfilledLine = regexp.MustCompile(`(?m)^fulfilled (\S+)$`)

// fulfilled returns the orders that were fulfilled, oldest first.
func (x *example) fulfilled() (orders []string) {
	x.t.Helper()
	text, err := os.ReadFile(x.program.Log)
	require.NoError(x.t, err)
	for _, line := range fulfilledLine.FindAllStringSubmatch(string(text), -1) {
		orders = append(orders, line[1])
	}
	return orders
}

// TestReceivers_ProcessEachEventOnce takes each example through a merchant's first days: a payment, a replay, a restart
// and a rotated secret. Those that sell get the payment of an order, and fulfil it once.
func TestReceivers_ProcessEachEventOnce(t *testing.T) {
	t.Parallel()
	for _, e := range examples {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			x := newExample(t, e.file, e.program)
			m := e2e.NewMerchant(t, e2e.Shared)
			m.Must(http.StatusOK, http.MethodDelete, "/v1/webhooks/"+m.Registration(), "")
			registered := m.Must(http.StatusCreated, http.MethodPost, "/v1/webhooks", `{"url": "`+x.url+`", "events": ["*"]}`)
			endpoint, secret := registered.Field("id").(string), registered.Field("secret").(string)
			x.key = m.Key
			x.start(secret)

			var session string
			var orders []string
			if e.sells {
				session, orders = x.buys(m)
			} else {
				session = m.Create(e2e.Terms)
			}
			require.Empty(t, x.fulfilled())
			m.MustPay(session, e2e.CardSucceeds)
			want := map[string]int{}
			var deliveries []string
			for _, typ := range []string{"checkout.completed", "payout.sent"} {
				e2e.Await(t, typ+" is there", 20*time.Second, func() bool {
					return e2e.Query[int](t, e2e.Shared, `SELECT count(*) FROM event WHERE session_id = $1 AND type = $2`, session, typ) == 1
				})
				delivery := e2e.DeliveryOf(t, e2e.Shared, session, typ)
				deliveries = append(deliveries, delivery)
				got := m.AwaitDelivery(delivery, "status", "delivered", 20*time.Second)
				want[got.Field("event_id").(string)+" "+typ] = 1
			}
			e2e.Await(t, "both are processed", 10*time.Second, func() bool { return len(x.processed()) == 2 })
			require.Equal(t, want, x.processed())

			replay := func(run int) {
				t.Helper()
				for _, delivery := range deliveries {
					e2e.Await(t, "the replay is accepted", 10*time.Second, func() bool { // the run ends a moment after its row: 409 until then
						got, err := m.Call(http.MethodPost, "/v1/deliveries/"+delivery+"/replay", "")
						return err == nil && got.Status == http.StatusAccepted
					})
					e2e.Await(t, "the replay is delivered", 20*time.Second, func() bool {
						got := m.Must(http.StatusOK, http.MethodGet, "/v1/deliveries/"+delivery, "")
						return got.Field("status") == "delivered" && got.Field("run") == float64(run)
					})
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
			e.forget(t, x.program.Dir)
			x.start(rotated)
			x.stop()
			for event := range want {
				want[event] = 2
			}
			require.Equal(t, want, x.processed())
			require.Equal(t, orders, x.fulfilled(), "what is processed again is not fulfilled again")
		})
	}
}

// verdict is a request, and what it must be answered. Its signature fits unless it is forged.
type verdict struct {
	name      string
	target    string        // /webhook when it is empty
	method    string        // POST when it is empty
	signature string        // how the header is written; "X-Service-Signature: %s" when it is empty
	forge     forgery       // nil: one header "t=…,v1=…"
	head      string        // further header lines
	bare      bool          // no Content-Length is added to them
	body      string        // what is signed
	sent      string        // the body as it is framed, when it is not sent as it is
	ago       time.Duration // how old it is
	form      string        // of the timestamp; %d when it is empty
	want      int
}

// forgery makes the signature headers of a request from those that fit: "t=…" and "v1=…".
type forgery func(t, v1 string) (headers []string)

// verdicts is the table of TestReceivers_GiveTheSameVerdict. The service sends little of it; proxies on the way, other
// hands on the secret and the next version of the service may send the rest.
type verdicts []verdict

func newVerdicts() verdicts {
	var all verdicts
	all.signatures()
	all.ids()
	all.refusedJSON()
	all.acceptedJSON()
	all.levels()
	all.targets()
	all.heads()
	all.chunks()
	all.lengths()
	all.timestamps()
	return all
}

func newEventID() string { return checkout.NewID(checkout.PrefixEvent) }

// newEvent is a body that is accepted, filled with white space up to a size.
func newEvent(size int) string {
	text := `{"id":"` + newEventID() + `","type":"checkout.completed"}`
	return text + strings.Repeat(" ", max(0, size-len(text)))
}

// body adds a body whose § is a member with a new id.
func (all *verdicts) body(want int, name, text string) {
	*all = append(*all, verdict{name: name, body: strings.ReplaceAll(text, "§", `"id":"`+newEventID()+`"`), want: want})
}

func (all *verdicts) add(c verdict) { *all = append(*all, c) }

// inChunks frames a body as a proxy does that does not know its length.
func inChunks(body, extension, trailer string) string {
	half := len(body) / 2
	return fmt.Sprintf("%x%s\r\n%s\r\n%X\r\n%s\r\n0\r\n%s\r\n", half, extension, body[:half], len(body)-half, body[half:], trailer)
}

// signatures adds imitations of the requests that only the service can make.
func (all *verdicts) signatures() {
	body := func() string {
		return `{"id":"` + newEventID() + `","type":"checkout.completed","data":{"note":"Zoë \u0000"}}`
	}
	headers := func(want int, name string, forge forgery) {
		all.add(verdict{name: "signature: " + name, body: body(), forge: forge, want: want})
	}
	forge := func(want int, name string, change func(t, v1 string) string) {
		headers(want, name, func(t, v1 string) []string { return []string{change(t, v1)} })
	}
	zeros := "v1=" + strings.Repeat("0", 64)
	another := func(t string) string {
		seconds, _ := strconv.Atoi(t[2:])
		return "t=" + strconv.Itoa(seconds+1)
	}

	forge(200, "right", func(t, v1 string) string { return t + "," + v1 })
	forge(200, "two v1, the first right", func(t, v1 string) string { return t + "," + v1 + "," + zeros })
	forge(200, "two v1, the second right", func(t, v1 string) string { return t + "," + zeros + "," + v1 })
	forge(200, "an unknown scheme beside", func(t, v1 string) string { return t + "," + v1 + ",v2=abc" })

	for name, key := range map[string][]byte{
		"wrong secret": []byte(webhook.NewSecret()), "the digest of a secret that is not ours": webhook.SecretDigest("whsec_"),
	} {
		text := body()
		sign := func(string, string) []string { return []string{webhook.Sign(key, time.Now(), []byte(text))} }
		all.add(verdict{name: "signature: " + name, body: text, forge: sign, want: 400})
	}
	text := body()
	all.add(verdict{name: "changed body", body: text, sent: strings.Replace(text, "completed", "failed", 1), want: 400})
	text = body()
	all.add(verdict{name: "white space in the body", body: text, sent: text + "\n", want: 400})
	headers(400, "no header", func(string, string) []string { return nil })
	headers(400, "two headers, the first right", func(t, v1 string) []string { return []string{t + "," + v1, "t=1," + zeros} })
	headers(400, "two headers, the second right", func(t, v1 string) []string { return []string{"t=1," + zeros, t + "," + v1} })
	forge(400, "empty header", func(string, string) string { return "" })
	forge(400, "garbage", func(string, string) string { return "garbage" })
	forge(400, "only commas", func(string, string) string { return ",=,,=" })
	forge(400, "another t", func(t, v1 string) string { return another(t) + "," + v1 })
	forge(400, "two t, both right", func(t, v1 string) string { return t + "," + t + "," + v1 })
	forge(400, "two t, the second old", func(t, v1 string) string { return t + "," + v1 + ",t=1" })
	forge(400, "two t, the first old", func(t, v1 string) string { return "t=1," + t + "," + v1 })
	forge(400, "no t", func(_, v1 string) string { return v1 })
	forge(400, "empty t", func(_, v1 string) string { return "t=," + v1 })
	forge(400, "t in milliseconds", func(t, v1 string) string { return t + "000," + v1 })
	forge(400, "t is text", func(_, v1 string) string { return "t=now," + v1 })
	forge(400, "t in hexadecimal", func(_, v1 string) string { return fmt.Sprintf("t=0x%x,%s", time.Now().Unix(), v1) })
	forge(400, "t with a fraction", func(t, v1 string) string { return t + ".0," + v1 })
	forge(400, "t with an exponent", func(t, v1 string) string { return t + "e0," + v1 })
	forge(400, "t in other digits", func(_, v1 string) string { return "t=٣," + v1 })
	forge(400, "t of 6,000 digits", func(_, v1 string) string { return "t=" + strings.Repeat("9", 6000) + "," + v1 })
	forge(400, "t with something behind", func(t, v1 string) string { return t + "=1," + v1 })
	forge(400, "v1 with something behind", func(t, v1 string) string { return t + "," + v1 + "=1" })
	forge(400, "no v1", func(t, _ string) string { return t })
	forge(400, "empty v1", func(t, _ string) string { return t + ",v1=" })
	forge(400, "v1 without =", func(t, _ string) string { return t + ",v1" })
	forge(400, "upper-case v1", func(t, v1 string) string { return t + ",v1=" + strings.ToUpper(v1[3:]) })
	forge(400, "short v1", func(t, v1 string) string { return t + "," + v1[:len(v1)-2] })
	forge(400, "long v1", func(t, v1 string) string { return t + "," + v1 + "00" })
	forge(400, "v1 with a letter that is not hexadecimal", func(t, v1 string) string { return t + "," + v1[:len(v1)-1] + "g" })
	forge(400, "v1 beyond ASCII", func(t, _ string) string { return t + ",v1=" + strings.Repeat("é", 32) })
	forge(400, "another scheme only", func(t, v1 string) string { return t + ",v0" + v1[2:] })
	forge(400, "capital names", func(t, v1 string) string { return "T" + t[1:] + "," + v1 })
	forge(400, "a space within", func(t, v1 string) string { return t + ", " + v1 })
}

func (all *verdicts) ids() {
	all.body(200, "a name with an escape", `{"\u0069d":"`+newEventID()+`"}`)
	all.body(200, "an id with an escape", `{"id":"\u0065vt`+newEventID()[3:]+`"}`)
	all.body(200, "beside another case", `{§,"Id":"evt_2","ID":7}`)
	all.body(400, "another case only", `{"Id":"evt_1"}`)
	all.body(400, "upper case only", `{"ID":"evt_1"}`)
	all.body(200, "two ids, the last right", `{"id":"evt_0",§}`)
	all.body(200, "two ids, the first a number", `{"id":7,§}`)
	all.body(400, "two ids, the last null", `{§,"id":null}`)
	all.body(400, "two ids, the last a number", `{§,"id":7}`)
	all.body(400, "two ids, the last empty", `{§,"id":""}`)
	all.body(400, "the id of an inner object", `{"data":{§}}`)
	all.body(400, "the id of a prototype", `{"__proto__":{§}}`)
	all.body(200, "an id of 64", `{"id":"evt_`+strings.Repeat("x", 64-26)+newEventID()[4:]+`"}`)
	all.body(400, "no id", `{"type":"checkout.completed"}`)
	all.body(400, "an id of 65", `{"id":"evt_`+strings.Repeat("x", 65)+`"}`)
	all.body(400, "an id of 300", `{"id":"evt_`+strings.Repeat("x", 300)+`"}`)
	all.body(200, "an id with _", `{"id":"evt_test_`+newEventID()[4:]+`"}`)
	for name, id := range map[string]string{
		"empty": `""`, "null": `null`, "true": `true`, "a number": `7`, "a list": `["evt_1"]`, "an object": `{"id":"evt_1"}`,
		"evt_ alone": `"evt_"`, "of something else": `"cs_1"`, "upper case": `"EVT_1"`, "a path": `"evt_/../../x"`, "with a dot": `"evt_1.json"`,
		"with a space": `" evt_1"`, "with a line behind": `"evt_1\n"`, "with a dash": `"evt_1-2"`, "with NUL": `"evt_1\u0000"`, "Cyrillic": `"evt_ё"`,
		"other digits": `"evt_٣"`, "half a surrogate": `"evt_\ud800"`,
	} {
		all.body(400, "id: "+name, `{"id":`+id+`,"type":"checkout.completed"}`)
	}
}

func (all *verdicts) acceptedJSON() {
	all.body(200, "white space around", " \r\n\t{ § }\n")
	all.body(200, "an id alone", `{§}`)
	all.body(200, "members that nobody knows", `{"object":"event",§,"more":[1,{"id":7}]}`)
	all.body(200, "the type is no string", `{§,"type":7}`)
	all.body(200, "the type is null", `{§,"type":null}`)
	all.body(200, "the type is an object", `{§,"type":{}}`)
	all.body(200, "an integer of 30 digits", `{§,"a":`+strings.Repeat("9", 30)+`}`)
	all.body(200, "an integer of 5,000 digits", `{§,"a":-`+strings.Repeat("9", 5000)+`}`)
	all.body(200, "an integer of 900,000 digits", `{§,"a":`+strings.Repeat("9", 900_000)+`}`)
	all.body(200, "a fraction of 5,000 digits", `{§,"a":0.`+strings.Repeat("9", 5000)+`}`)
	all.body(200, "a number beyond a double", `{§,"a":[1e999,-1E+999,1e-999,-0]}`)
	all.body(200, "DEL and NUL", "{§,\"a\":\"\x7f\\u0000\"}")
	all.body(200, "half a surrogate beside", `{§,"a":"\ud800","\udc00":1}`)
	all.body(200, "brackets in a string", `{§,"a":"`+strings.Repeat(`[{\"\\`, 500)+`"}`)
}

func (all *verdicts) refusedJSON() {
	for name, text := range map[string]string{
		"nothing": "", "an open brace": "{", "no members": "{}", "an empty list": "[]", "no UTF-8": "\xff\xfe", "a space": " ", "null": "null", "true": "true", "a number": "7", "a string": `"evt_1"`, "a list": `["evt_1"]`, "a list of events": `[{§}]`,
		"cut off": `{§`, "trailing data": `{§}x`, "two events": `{§}{§}`, "NUL behind": "{§}\x00", "a comma too many": `{§,}`, "no quotes": `{id:"evt_1"}`,
		"single quotes": `{'id':'evt_1'}`, "a comment": `{§/**/}`, "a line break in a string": "{§,\"a\":\"\n\"}", "an unknown escape": `{§,"a":"\x41"}`,
		"NaN": `{§,"a":NaN}`, "Infinity": `{§,"a":Infinity}`, "-Infinity": `{§,"a":-Infinity}`, "a leading zero": `{§,"a":01}`, "hexadecimal": `{§,"a":0x1}`,
		"a plus": `{§,"a":+1}`, "a dot at the end": `{§,"a":1.}`, "a dot in front": `{§,"a":.5}`, "True": `{§,"a":True}`, "a form": "id=evt_1",
		"BOM": "\ufeff{§}", "BOM behind": "{§}\ufeff", "a no-break space": "\u00a0{§}", "a form feed": "\f{§}", "UTF-16": utf16LE(`{"id":"evt_1"}`), "UTF-16 with BOM": "\xff\xfe" + utf16LE(`{"id":"evt_1"}`),
		"Latin-1": "{§,\"a\":\"\xe9\"}", "half a character": "{§,\"a\":\"\xe2\x82\"}", "an overlong character": "{§,\"a\":\"\xc0\x80\"}",
		"a surrogate in UTF-8": "{§,\"a\":\"\xed\xa0\x80\"}", "Latin-1 in a name": "{§,\"\xe9\":1}", "beyond Unicode": "{§,\"a\":\"\xf4\x90\x80\x80\"}",
	} {
		all.body(400, "JSON: "+name, text)
	}
}

// levels adds how deep and how long a body may be.
func (all *verdicts) levels() {
	list := func(levels int) string { return strings.Repeat("[", levels) + strings.Repeat("]", levels) }
	all.body(200, "100 levels", `{§,"a":`+list(99)+`}`)
	all.body(400, "101 levels", `{§,"a":`+list(100)+`}`)
	all.body(200, "99 levels, often", `{§,"a":[`+strings.Repeat(list(98)+",", 5000)+`1]}`)
	all.body(400, "9,000 levels", `{§,"a":`+list(9000)+`}`)
	all.body(400, "9,000 levels of objects", `{§,"a":`+strings.Repeat(`{"a":`, 9000)+"1"+strings.Repeat("}", 9000)+`}`)
	all.body(400, "200,000 levels", `{§,"a":`+list(200_000)+`}`)
	all.body(400, "500,000 levels without an end", strings.Repeat("[", 500_000))
	all.body(200, "1 MiB", newEvent(1<<20))
	all.body(400, "1 MiB and a byte", newEvent(1<<20+1))
	all.body(400, "8 MiB", newEvent(8<<20))
}

func (all *verdicts) targets() {
	for target, want := range map[string]int{
		"/webhook?tenant=1": 200, "/webhook?": 200, "/webhook?a=/x?b": 200, "/webhook?%zz;": 200, "/": 404, "/webhook/": 404, "/Webhook": 404, "/webhooks": 404,
		"//webhook": 404, "/./webhook": 404, "/x/../webhook": 404, "/%77ebhook": 404, "/webhook%3Ftenant=1": 404, "/webhook;a": 404, "/?/webhook": 404,
		"/x?/webhook": 404, "http://127.0.0.1/webhook": 404,
	} {
		all.add(verdict{name: "POST " + target, target: target, body: newEvent(0), want: want})
	}
	for _, method := range []string{"GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS"} {
		all.add(verdict{name: method, method: method, body: newEvent(0), want: 405})
		all.add(verdict{name: method + " with a query", method: method, target: "/webhook?a=1", body: newEvent(0), want: 405})
		all.add(verdict{name: method + " of another path", method: method, target: "/other", body: newEvent(0), want: 404})
		all.add(verdict{name: method + " without a body", method: method, bare: true, want: 405})
	}
	all.add(verdict{name: "OPTIONS *", method: "OPTIONS", target: "*", bare: true, want: 404})
	all.add(verdict{name: "1 MiB to another path", target: "/other", body: newEvent(1 << 20), want: 404})
}

func (all *verdicts) heads() {
	for name, head := range map[string]string{
		"no media type": "", "another media type": "Content-Type: text/plain\r\n", "a form's media type": "Content-Type: application/x-www-form-urlencoded\r\n",
		"a charset": "Content-Type: application/json; charset=latin1\r\n", "Expect": "Expect: 100-continue\r\n", "50 headers": strings.Repeat("X-Forwarded-For: 192.0.2.1\r\n", 50),
		"a second, empty signature": "X-Service-Signature:\r\n", "an encoding": "Content-Encoding: gzip\r\n", "to be kept": "Connection: keep-alive\r\n",
		"an upgrade": "Connection: Upgrade\r\nUpgrade: h2c\r\n",
	} {
		all.add(verdict{name: name, head: head, body: newEvent(0), want: 200})
	}
	for name, signature := range map[string]string{
		"lower case": "x-service-signature: %s", "upper case": "X-SERVICE-SIGNATURE: %s", "no space": "X-Service-Signature:%s",
		"white space about": "X-Service-Signature: \t %s \t",
	} {
		all.add(verdict{name: "header: " + name, signature: signature, body: newEvent(0), want: 200})
	}
}

func (all *verdicts) chunks() {
	chunked := func(want int, name, head string, frame func(body string) string) {
		text := newEvent(0)
		all.add(verdict{name: "chunked: " + name, bare: true, head: head, body: text, sent: frame(text), want: want})
	}
	const encoding = "Transfer-Encoding: chunked\r\n"
	plain := func(body string) string { return inChunks(body, "", "") }
	chunked(200, "as a proxy sends", encoding, plain)
	chunked(200, "other letters", "transfer-encoding: Chunked\r\n", plain)
	chunked(200, "an extension", encoding, func(body string) string { return inChunks(body, ";name=value", "") })
	chunked(200, "a trailer", encoding, func(body string) string { return inChunks(body, "", "X-Sum: 1\r\nX-More: 2\r\n") })
	chunked(400, "no size", encoding, func(body string) string { return body + "\r\n" })
	chunked(400, "a size with a sign", encoding, func(body string) string { return "+" + plain(body) })
	chunked(400, "a size with 0x", encoding, func(body string) string { return "0x" + plain(body) })
	chunked(400, "a size too small", encoding, func(body string) string { return "5\r\n" + body + "\r\n0\r\n\r\n" })
	chunked(400, "cut off", encoding, func(body string) string { return plain(body)[:20] })
	chunked(400, "no end", encoding, func(body string) string { return strings.TrimSuffix(plain(body), "0\r\n\r\n") })
	chunked(400, "nothing", encoding, func(string) string { return "0\r\n\r\n" })
	mebibyte := newEvent(1 << 20)
	all.add(verdict{name: "chunked: 1 MiB", bare: true, head: encoding, body: mebibyte, sent: plain(mebibyte), want: 200})
	all.add(verdict{name: "chunked: 1 MiB and a byte", bare: true, head: encoding, body: mebibyte + " ", sent: plain(mebibyte + " "), want: 400})
	all.add(verdict{name: "chunked: 8 MiB", bare: true, head: encoding, body: newEvent(8 << 20), sent: plain(newEvent(8 << 20)), want: 400})
}

func (all *verdicts) lengths() {
	length := func(want int, name string, head func(right int) string) {
		text := newEvent(0)
		all.add(verdict{name: "length: " + name, bare: true, head: head(len(text)), body: text, want: want})
	}
	length(200, "with spaces", func(n int) string { return fmt.Sprintf("Content-Length:   %d  \r\n", n) })
	length(400, "missing", func(int) string { return "" })
	length(400, "zero", func(int) string { return "Content-Length: 0\r\n" })
	length(400, "too small", func(n int) string { return fmt.Sprintf("Content-Length: %d\r\n", n-1) })
	length(400, "too large", func(n int) string { return fmt.Sprintf("Content-Length: %d\r\n", n+1) })
	length(400, "negative", func(n int) string { return fmt.Sprintf("Content-Length: -%d\r\n", n) })
	length(400, "with a plus", func(n int) string { return fmt.Sprintf("Content-Length: +%d\r\n", n) })
	length(400, "with a fraction", func(n int) string { return fmt.Sprintf("Content-Length: %d.0\r\n", n) })
	length(400, "a word", func(int) string { return "Content-Length: many\r\n" })
	length(400, "two, the first right", func(n int) string { return fmt.Sprintf("Content-Length: %d\r\nContent-Length: 3\r\n", n) })
}

func (all *verdicts) timestamps() {
	for name, c := range map[string]verdict{
		"a leading zero": {form: "0%d", want: 200}, "12 digits": {form: "%012d", want: 200}, "13 digits": {form: "%013d", want: 400},
		"30 digits": {form: "%030d", want: 400}, "a plus": {form: "+%d", want: 400}, "a minus": {form: "-%d", want: 400},
		"a space in front": {form: " %d", want: 400}, "a space behind": {form: "%d ", want: 400}, "_": {form: "%d_0", want: 400},
		"290 s old": {ago: 290 * time.Second, want: 200}, "301 s old": {ago: 301 * time.Second, want: 400},
		"299 s ahead": {ago: -299 * time.Second, want: 200}, "320 s ahead": {ago: -320 * time.Second, want: 400},
	} {
		c.name, c.body = "t: "+name, newEvent(0)
		all.add(c)
	}
}

func utf16LE(text string) string {
	return strings.Join(strings.Split(text, ""), "\x00") + "\x00"
}

// send writes a verdict's request byte by byte, as no client would, and returns the status.
func (x *example) send(secret string, c verdict) (int, error) {
	stamp := fmt.Sprintf(cmp.Or(c.form, "%d"), time.Now().Add(-c.ago).Unix())
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(stamp + "." + c.body))
	method, head := cmp.Or(c.method, "POST"), c.head
	if !c.bare {
		head += fmt.Sprintf("Content-Length: %d\r\n", len(cmp.Or(c.sent, c.body)))
	}
	t, v1 := "t="+stamp, fmt.Sprintf("v1=%x", mac.Sum(nil))
	signatures := []string{t + "," + v1}
	if c.forge != nil {
		signatures = c.forge(t, v1)
	}
	for _, signature := range signatures {
		head = fmt.Sprintf(cmp.Or(c.signature, "X-Service-Signature: %s")+"\r\n", signature) + head
	}
	request := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: %s\r\n%s\r\n", method, cmp.Or(c.target, "/webhook"), x.address, head)
	conn, err := net.Dial("tcp", x.address)
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close() }() // it has answered or failed
	if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		return 0, err
	}
	// Who refuses the head may answer and hang up before all is written.
	_, unwritten := io.WriteString(conn, request+cmp.Or(c.sent, c.body))
	unwritten = errors.Join(unwritten, conn.(*net.TCPConn).CloseWrite())
	for from := bufio.NewReader(conn); ; {
		res, err := http.ReadResponse(from, &http.Request{Method: method})
		if err != nil {
			return 0, errors.Join(err, unwritten)
		}
		if res.StatusCode != http.StatusContinue {
			_, err = io.Copy(io.Discard, res.Body)
			return res.StatusCode, errors.Join(err, res.Body.Close())
		}
	}
}

// TestReceivers_GiveTheSameVerdict: forged requests, and those whose signature fits, are judged alike in all three
// languages. What is accepted is processed, and nothing else.
func TestReceivers_GiveTheSameVerdict(t *testing.T) {
	t.Parallel()
	secret, all := webhook.NewSecret(), newVerdicts()
	for _, e := range examples {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			x := newExample(t, e.file, e.program)
			x.start(secret)
			differ, accepted := map[string]string{}, 0
			for _, c := range all {
				got, err := x.send(secret, c)
				if err != nil || got != c.want {
					differ[c.name] = fmt.Sprintf("%d instead of %d (%v)", got, c.want, err)
				}
				if c.want == http.StatusOK {
					accepted++
				}
			}
			require.Empty(t, differ, "%d of %d differ from the table", len(differ), len(all))
			t.Logf("%d requests, %d of them accepted", len(all), accepted)
			x.stop()
			text, err := os.ReadFile(x.program.Log)
			require.NoError(t, err)
			times := map[string]int{}
			for _, line := range regexp.MustCompile(`(?m)^processed (evt_\w+)`).FindAllStringSubmatch(string(text), -1) {
				times[line[1]]++
			}
			require.Len(t, times, accepted, "each has an id of its own")
			for event, n := range times {
				require.Equal(t, 1, n, event)
			}
		})
	}
}

// TestReceivers_AreWhatTheGuideShows: the snippets of the merchant's guide are parts of the programs that are tested here.
func TestReceivers_AreWhatTheGuideShows(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile(e2e.Path("api", "README.md"))
	require.NoError(t, err)
	_, section, _ := strings.Cut(string(guide), "\n## Verify a signature\n")
	section, _, _ = strings.Cut(section, "\n## ")
	snippets := regexp.MustCompile("(?s)```\\w+\n(.*?)```").FindAllStringSubmatch(section, -1)
	require.Len(t, snippets, len(examples))
	for i, e := range examples {
		program, err := os.ReadFile(e2e.Path(e.verifies))
		require.NoError(t, err)
		require.Contains(t, string(program), snippets[i][1], e.name)
		require.Contains(t, section, e.verifies, "the guide leads there")
	}
}
