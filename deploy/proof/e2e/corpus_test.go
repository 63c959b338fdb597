package e2e_test

import (
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"example.com/checkout/deploy/proof/e2e"
	"example.com/checkout/storage/storagetest/must"
)

// corpusFile is one category of the corpus of input, testdata/corpus. What a case leaves out is taken from Defaults.
type corpusFile struct {
	Category string
	Note     string // for the reader of the file: the rule behind all cases
	Defaults corpusCase
	Values   [][3]string // cases in short: name, value, why
	Cases    []corpusCase
}

// corpusCase is one request and what must come of it. Its texts are in the notation of corpusNotation.
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

	// Page sends a form to the hosted page: Body, else a good form with what differs in Form; null leaves a field out.
	Page     bool
	Form     map[string]*string
	Location string // where a page's 303 leads

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

func loadCorpus[T any](t *testing.T, dir string) map[string]T {
	paths := must.Get(filepath.Glob(filepath.Join("testdata", "corpus", dir, "*.yaml")))(t)
	require.NotEmpty(t, paths)
	files := map[string]T{}
	for _, path := range paths {
		text := must.Get(os.Open(path))(t)
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
	own, other := reflect.ValueOf(&c).Elem(), reflect.ValueOf(d)
	for i := range own.NumField() {
		if own.Field(i).IsZero() {
			own.Field(i).Set(other.Field(i))
		}
	}
	if c.Param == "-" {
		c.Param = ""
	}
	return c
}

// Counts that the corpus must not fall below. Source: the plan of the corpus, one number a category.
var corpusLeast = map[string]int{
	"Authorization header": 40, "JSON": 60, "amount": 80, "currency and payout_currency": 60, "metadata": 60, "customer_email": 40,
	"redirect_url": 60, "webhook url and webhook_url": 120, "events": 30, "path ids": 60, "HTTP": 60, "Idempotency-Key": 25, "list queries": 30,
	"signature verifier": 60, "newer routes": 60, "limits of a webhook": 20,
}

// TestCorpus sends what merchants and customers may send. It ends with what is accepted, because that changes rows.
func TestCorpus(t *testing.T) {
	t.Parallel()
	w := newCorpusWorld(t)
	t.Run("invalid input is refused and changes nothing", func(t *testing.T) {
		w.each(t, "refused", corpusLeast, w.refuse)
		w.requireNoOtherWorkflow(t)
	})
	t.Run("the page takes no payment from wrong input", func(t *testing.T) {
		w.each(t, "page", map[string]int{"hosted page": 40}, w.refuse)
		w.own.MustPay(w.values["session"], e2e.CardSucceeds)
		require.Equal(t, "completed", w.own.Session(w.values["session"]).Field("status"), "it can be paid all the same")
		w.last = ""
	})
	t.Run("near misses are accepted, and read back", func(t *testing.T) {
		w.each(t, "accepted", map[string]int{"total": 150}, w.accept)
	})
}

// category is a category of the other directories of the corpus.
type category[T any] struct {
	Category string
	Note     string
	Cases    []T
}

// each runs every case of a directory of the corpus, and requires that there are enough of each category.
func (w *corpusWorld) each(t *testing.T, dir string, least map[string]int, run func(*testing.T, corpusCase)) {
	files := loadCorpus[corpusFile](t, dir)
	pid, counts := w.stack.API.PID(), map[string]int{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		f := files[name]
		cases, seen := f.all(), map[string]bool{}
		counts[f.Category] += len(cases)
		counts["total"] += len(cases)
		t.Run(name, func(t *testing.T) {
			for _, c := range cases {
				require.NotEmpty(t, c.Why, c.Name)
				require.False(t, seen[c.Name], "%s appears twice", c.Name)
				seen[c.Name] = true
				t.Run(c.Name, func(t *testing.T) { run(t, c) })
			}
		})
	}
	require.Equal(t, pid, w.stack.API.PID(), "the API is the same process")
	require.Equal(t, http.StatusOK, e2e.Ask(t, http.MethodGet, w.stack.APIURL()+"/healthz", "").Status)
	for category, least := range least {
		require.GreaterOrEqual(t, counts[category], least, category)
	}
	t.Logf("%s: %v", dir, counts)
}
