package e2e_test

import (
	"cmp"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"example.com/checkout/deploy/proof/e2e"
)

// corpusFile is one category of the corpus of input, testdata/corpus. What a
// case leaves out is taken from Defaults.
type corpusFile struct {
	Category string
	Note     string // for the reader of the file: the rule behind all cases
	Defaults corpusCase
	Values   [][3]string // cases in short: name, value, why
	Cases    []corpusCase
}

// corpusCase is one request and what must come of it. Its texts are in the
// notation of corpusNotation.
type corpusCase struct {
	Name, Why string

	Caller  string   // whose key: one of corpusWorld.keys, or none
	Method  string   //
	Path    string   // as it is sent, with its query
	Headers []string // "Name: value"; they replace what is sent otherwise
	Without []string // names of headers that are not sent
	// The body is Body, else Template with Value for ‹value›.
	Body, Template, Value *string
	// Head is a request line and headers as they are, for what net/http would not
	// send; Body follows. Close ends our side of the connection after it.
	Head  []string
	Close bool

	Before *corpusCase // a request that is made first, and must be accepted
	Busy   string      // an Idempotency-Key with which another process works on such a request

	At int // seconds from now: the timestamp ‹t› of a signature

	Status int
	Error  string            // code, "" with a status below 400
	Param  string            // "-" for none where the defaults have one
	Plain  bool              // Go's HTTP server answers, in plain text
	Answer map[string]string // members of the answer by dotted path, as fmt prints them
	Has    string            // part of the answer's text
	Hides  string            // no part of it
	Read   string            // what to GET afterwards, when the answer has no Location
}

// all is every case of the file, whole.
func (f corpusFile) all() []corpusCase {
	var cases []corpusCase
	for _, v := range f.Values {
		cases = append(cases, corpusCase{Name: v[0], Value: &v[1], Why: v[2]}.or(f.Defaults))
	}
	for _, c := range f.Cases {
		cases = append(cases, c.or(f.Defaults))
	}
	return cases
}

// loadCorpus reads every file of a directory of the corpus.
func loadCorpus[T any](t *testing.T, dir string) map[string]T {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("testdata", "corpus", dir, "*.yaml"))
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	files := map[string]T{}
	for _, path := range paths {
		text, err := os.Open(path)
		require.NoError(t, err)
		defer func() { _ = text.Close() }() // it is only read
		decoder := yaml.NewDecoder(text)
		decoder.KnownFields(true)
		var f T
		require.NoError(t, decoder.Decode(&f), path)
		files[strings.TrimSuffix(filepath.Base(path), ".yaml")] = f
	}
	return files
}

// or is c with what it leaves out taken from d.
func (c corpusCase) or(d corpusCase) corpusCase {
	c.Caller = cmp.Or(c.Caller, d.Caller)
	c.Method = cmp.Or(c.Method, d.Method)
	c.Path = cmp.Or(c.Path, d.Path)
	c.Error = cmp.Or(c.Error, d.Error)
	c.Param = cmp.Or(c.Param, d.Param)
	c.Status = cmp.Or(c.Status, d.Status)
	c.Body = cmp.Or(c.Body, d.Body)
	c.Template = cmp.Or(c.Template, d.Template)
	c.Value = cmp.Or(c.Value, d.Value)
	c.Read = cmp.Or(c.Read, d.Read)
	if c.Headers == nil {
		c.Headers = d.Headers
	}
	if c.Answer == nil {
		c.Answer = d.Answer
	}
	if c.Param == "-" {
		c.Param = ""
	}
	return c
}

// requireDistinct: each case is another idea, with a reason.
func (f corpusFile) requireDistinct(t *testing.T) {
	t.Helper()
	require.NotEmpty(t, f.Category)
	names := map[string]bool{}
	for _, c := range f.all() {
		require.NotEmpty(t, c.Name)
		require.NotEmpty(t, c.Why, c.Name)
		require.False(t, names[c.Name], "%s appears twice", c.Name)
		names[c.Name] = true
	}
}

// Counts that the corpus must not fall below. Source: the plan of the corpus, one
// number a category.
var corpusLeast = map[string]int{
	"Authorization header": 40, "JSON": 60, "amount": 80, "currency and payout_currency": 60, "metadata": 60, "customer_email": 40,
	"redirect_url": 60, "webhook url and webhook_url": 120, "events": 30, "path ids": 60, "HTTP": 60, "Idempotency-Key": 25, "list queries": 30,
	"signature verifier": 60, "newer routes": 60, "limits of a webhook": 20,
}

var acceptedLeast = map[string]int{"total": 150}

// TestCorpus sends what merchants and customers may send. It ends with what is accepted, because that changes rows.
func TestCorpus(t *testing.T) {
	t.Parallel()
	w := newCorpusWorld(t)
	t.Run("invalid input is refused and changes nothing", w.refuseAll)
	t.Run("the page takes no payment from wrong input", w.refuseForms)
	t.Run("near misses are accepted", w.acceptAll)
}

// category is a category of the other directories of the corpus.
type category[T any] struct {
	Category string
	Note     string
	Cases    []T
}

// each runs every case of a directory of the corpus, and requires that there are enough of each category.
func (w *corpusWorld) each(t *testing.T, dir string, least map[string]int, run func(*testing.T, corpusCase)) {
	t.Helper()
	files := loadCorpus[corpusFile](t, dir)
	pid, counts := w.stack.API.PID(), map[string]int{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		f := files[name]
		f.requireDistinct(t)
		counts[f.Category] += len(f.all())
		counts["total"] += len(f.all())
		t.Run(name, func(t *testing.T) {
			for _, c := range f.all() {
				t.Run(c.Name, func(t *testing.T) { run(t, c) })
			}
		})
	}
	w.requireAlive(t, pid)
	for category, least := range least {
		require.GreaterOrEqual(t, counts[category], least, category)
	}
	for _, category := range slices.Sorted(maps.Keys(counts)) {
		t.Logf("%s: %-32s %5d", dir, category, counts[category])
	}
}

// refuseAll sends every request of testdata/corpus/refused to the API: the exact status, code and param, a JSON
// body with its request id, never a 5xx, and nothing that PostgreSQL has of the
// merchants is another afterwards. No workflow comes to be, and the process lives.
func (w *corpusWorld) refuseAll(t *testing.T) {
	t.Helper()
	w.each(t, "refused", corpusLeast, w.refuse)
	w.requireNoOtherWorkflow(t)
}

// acceptAll sends every request of testdata/corpus/accepted, each beside a limit that it keeps, and reads back what was
// made.
func (w *corpusWorld) acceptAll(t *testing.T) {
	t.Helper()
	w.each(t, "accepted", acceptedLeast, w.accept)
}

// requireAlive: the API is the same process and answers.
func (w *corpusWorld) requireAlive(t *testing.T, pid int) {
	t.Helper()
	require.Equal(t, pid, w.stack.API.PID())
	require.NoError(t, w.stack.API.Err())
	require.Equal(t, http.StatusOK, e2e.Ask(t, http.MethodGet, w.stack.APIURL()+"/healthz", "").Status)
}
