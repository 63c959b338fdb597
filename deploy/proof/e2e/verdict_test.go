package e2e_test

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/webhook"
)

// verdict is a request that a receiver gets, and the status that it must answer. Its texts are in the notation of
// corpusNotation, with the values of verdict.write.
type verdict struct {
	Status         int
	Method, Target string // POST, /webhook
	Line           string // of the header that has the signature; "-" for none
	Signature      string // a line makes a header of its own
	Head           string // further lines of the header
	Length         string // Content-Length; "-" for none
	Body           string // what is signed
	Sent           string // the body as it is sent
	Stamp          string // the time of the signature
	Ago            int    // seconds from Stamp's ‹now› until the request is sent
}

// verdictGroup are verdicts that differ in the field Sets.
type verdictGroup struct {
	Sets   string
	Common verdict           `yaml:",inline"`
	Cases  map[string]string // texts of the field, by name
	Each   []string          // texts that name themselves
}

// newVerdicts returns the cases of testdata/corpus/receivers, by name.
func newVerdicts(t *testing.T) map[string]verdict {
	all := map[string]verdict{}
	type file struct {
		Category, Note string
		Groups         []verdictGroup
	}
	for _, g := range loadCorpus[file](t, "receivers")["receivers"].Groups {
		for _, text := range g.Each {
			all[fmt.Sprintf("%s %s of %q with %q", g.Sets, text, g.Common.Target, g.Common.Body)] = g.with(t, text)
		}
		for name, text := range g.Cases {
			name = g.Sets + ": " + name
			require.False(t, slices.Contains(slices.Collect(maps.Keys(all)), name), "%s appears twice", name)
			all[name] = g.with(t, text)
		}
	}
	require.GreaterOrEqual(t, len(all), 225)
	return all
}

func (g verdictGroup) with(t *testing.T, text string) verdict {
	c := g.Common
	field := reflect.ValueOf(&c).Elem().FieldByNameFunc(func(name string) bool { return strings.EqualFold(name, g.Sets) })
	require.True(t, field.IsValid(), g.Sets)
	field.SetString(text)
	return c
}

// write returns the request as it is sent at this moment to a receiver with a secret, which no client would send so.
func (c verdict) write(t *testing.T, host, secret string) string {
	w := &corpusWorld{secrets: map[string]string{
		"own": secret, "another": webhook.NewSecret(), "digest": string(webhook.SecretDigest("whsec_")),
	}}
	id := checkout.NewID(checkout.PrefixEvent)
	values := map[string]string{
		"id": id, "rest of the id": strings.TrimPrefix(id, "evt_"), "event": `{"id":"` + id + `","type":"checkout.completed"}`,
		"now": strconv.FormatInt(time.Now().Unix()-int64(c.Ago), 10),
	}
	set := func(name, text, otherwise string) string {
		values[name] = w.say(t, cmp.Or(text, otherwise), values)
		return values[name]
	}
	body, stamp := set("body", c.Body, "‹event›"), set("t", c.Stamp, "‹now›")
	seconds, _ := strconv.Atoi(stamp) // a case with another form does not use the two
	values["t + 1"], values["t in hexadecimal"] = strconv.Itoa(seconds+1), strconv.FormatInt(int64(seconds), 16)
	values["v1"] = w.apply(t, "hmac", "own:"+stamp+"."+body)
	values["chunks without an end"] = inChunks(body)
	values["chunks"] = values["chunks without an end"] + "\r\n"
	sent := set("sent", c.Sent, "‹body›")
	for name, n := range map[string]int{"length - 1": -1, "length": 0, "length + 1": 1} {
		values[name] = strconv.Itoa(len(sent) + n)
	}

	request := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: %s\r\n", cmp.Or(c.Method, "POST"), cmp.Or(c.Target, "/webhook"), host)
	if c.Line != "-" {
		for signature := range strings.SplitSeq(w.say(t, cmp.Or(c.Signature, "t=‹t›,v1=‹v1›"), values), "\n") {
			values["signature"] = signature
			request += w.say(t, cmp.Or(c.Line, "X-Service-Signature: ‹signature›"), values) + "\r\n"
		}
	}
	request += w.say(t, c.Head, values)
	if c.Length != "-" {
		request += "Content-Length: " + w.say(t, cmp.Or(c.Length, "‹length›"), values) + "\r\n"
	}
	return request + "\r\n" + sent
}

// inChunks frames a body in two chunks, as a proxy does that does not know its length, without the empty line at the
// end.
func inChunks(body string) string {
	half := len(body) / 2
	return fmt.Sprintf("%x\r\n%s\r\n%X\r\n%s\r\n0\r\n", half, body[:half], len(body)-half, body[half:])
}

// judgesAlike sends forged requests, and those whose signature fits, which are judged alike in all three languages.
// What is accepted is processed, and nothing else.
func (x *example) judgesAlike() {
	secret, all := webhook.NewSecret(), newVerdicts(x.t)
	x.start(secret)
	differ, accepted := map[string]string{}, 0
	for name, c := range all {
		method := cmp.Or(c.Method, "POST")
		got, err := exchange(x.address, method, c.write(x.t, x.address, secret), true)
		if err != nil || got.Status != c.Status {
			differ[name] = fmt.Sprintf("%d instead of %d (%v)", got.Status, c.Status, err)
		}
		if c.Status == http.StatusOK {
			accepted++
		}
	}
	require.Empty(x.t, differ, "%d of %d differ from the table", len(differ), len(all))
	x.t.Logf("%d requests, %d of them accepted", len(all), accepted)
	x.stop()
	times := x.processed()
	require.Len(x.t, times, accepted, "each has an id of its own")
	for event, n := range times {
		require.Equal(x.t, 1, n, event)
	}
}
