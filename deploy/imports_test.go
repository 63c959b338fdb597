// Package deploy_test keeps the layout of the repository: who may import whom, and what lies where.
package deploy_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	root   = ".." // of the repository, seen from this directory
	module = "example.com/checkout"
)

// topLevel is everything that lies at the top of the repository, apart from dot files.
var topLevel = []string{"README.md", "activities", "api", "deploy", "go.mod", "go.sum", "storage", "worker", "workflows"}

// The packages that hold the words of the trade, each those of one product.
const (
	money    = "workflows/money"
	checkout = "workflows/checkout"
	merchant = "workflows/merchant"
	treasury = "workflows/treasury"
	books    = "workflows/books"
	webhook  = "workflows/webhook"
)

// leaves are these packages. They use the standard library, nothing that talks to the world, and no library that could
// make them depend on one.
var leaves = []string{money, checkout, merchant, treasury, books, webhook}

// ofDeliveries matches the names of the files that are about webhooks and their deliveries only. They do not compile
// anew for a word of the treasury.
var ofDeliveries = regexp.MustCompile(`attempt|deliver|endpoint|replay|webhook`)

// idna has the rules for names in Unicode and no I/O. net/http uses a copy of it for the hosts that it calls.
const idna = "golang.org/x/net/idna"

// contract is what the doors (api, workflows/runs, the command line) and the stories (workflows) agree on.
const contract = "workflows/contract"

// mayImport says for each package which packages of this module it may import. The packages of deploy/ are in rooms.
var mayImport = map[string][]string{
	money:                      {},
	checkout:                   {money},
	merchant:                   {money, checkout},
	treasury:                   {money, checkout},
	books:                      {money, checkout},
	"workflows/address":        {money, checkout},
	webhook:                    {money, checkout, merchant},
	contract:                   {checkout, webhook},
	"storage":                  {"storage/people", "storage/pg", money, checkout, merchant, treasury, books, webhook},
	"storage/people":           {"storage/pg", checkout, merchant, webhook},
	"storage/pg":               {checkout, merchant},
	"storage/pgtemp":           {},
	"storage/storagetest":      {"storage", "storage/pg", "storage/pgtemp", money, checkout},
	"storage/storagetest/must": {},
	"activities":               {"storage", "storage/people", "storage/pg", contract, checkout, treasury, books, webhook},
	"activities/sandbox":       {"storage", money, checkout, books, treasury},
	"activities/rate":          {money, checkout},
	"activities/mail":          {"storage", "storage/people", checkout, merchant},
	"activities/treasury":      {"storage", "workflows/address", money, checkout, merchant, treasury, books},
	"workflows":                {"activities", contract, checkout, treasury, webhook}, // method references and their inputs
	"workflows/runs":           {contract, checkout, webhook},
	// The worker opens the networks of its settings for the activities, so it imports the packages of all of them.
	"worker": {
		"workflows", "activities", "activities/bitcoin", "activities/ethereum", "activities/jsonrpc", "activities/rate",
		"activities/sandbox", "activities/stripe", "activities/treasury", "storage", "workflows/address", "workflows/runs",
		contract, money, checkout, treasury, books, webhook,
	},
	"api/conformance":     {},
	"api/sdk":             {},                                                                           // a module of its own, which merchants install
	"api/action":          {"workflows/runs", "storage", "storage/people", checkout, merchant, webhook}, // what api, api/dashboard and the command line do alike
	"api/web":             {checkout},
	"api/limit":           {"api/web", "storage"},
	"api/passhash":        {"api/limit", merchant},
	"api/acquirer":        {"api/web", "storage", checkout, books},
	"api/health":          {},
	"api/failure":         {"api/limit", "workflows/runs", "storage", "storage/people", "storage/pg", checkout, merchant, webhook},
	"api":                 {"api/action", "api/failure", "api/health", "api/limit", "api/web", "workflows/runs", "storage", "storage/pg", money, checkout, merchant, webhook},
	"api/hosted":          {"api/failure", "api/limit", "api/web", contract, "workflows/runs", "storage", "storage/people", money, checkout, merchant, webhook},
	"api/dashboard":       {"api/action", "api/dashboard/page", "api/dashboard/login", "api/failure", "api/limit", "api/web", "workflows/address", "workflows/runs", "storage", "storage/people", "storage/pg", money, checkout, merchant, webhook},
	"api/dashboard/page":  {"api/action", "api/limit", "storage", "storage/people", "storage/pg", checkout, merchant},
	"api/dashboard/login": {"api/dashboard/page", "api/failure", "api/limit", "api/passhash", "api/web", "storage", "storage/people", checkout, merchant},
	"activities/stripe":   {money, checkout, books},

	"activities/jsonrpc":  {},
	"activities/bitcoin":  {"activities/jsonrpc", "workflows/address", money, checkout, treasury},
	"activities/ethereum": {"activities/jsonrpc", "workflows/address", money, checkout, treasury},

	"workflows/runs/runstest": {contract},
}

// only says who may import the packages that run in a worker. All others use the contract.
var only = map[string][]string{
	"activities": {"worker", "workflows", "deploy/program/service"},
	"workflows":  {"worker", "deploy/proof/chaos/invariant"}, // the latter replays histories
}

// outside is what the stories of package workflows have no use for: a workflow gets its context from the SDK, and asks
// Temporal for nothing.
var outside = []string{"context", "go.temporal.io/sdk/client"}

// A room is a part of deploy/. All its packages may import the same, with what is below it.
type room struct {
	name      string
	mayImport []string
}

// service is everything outside deploy/ that the program is made of.
var service = []string{"activities", "api", "storage", "worker", "workflows"}

// rooms are the parts of deploy/, the innermost first. What ships is in program: it imports no stand-in and no proof.
// Only packages of deploy/ import deploy/, but for tests that need a stand-in of testStandIns.
var rooms = []room{
	// The command line serves no pages: what both need belongs to api/action, storage or workflows/checkout.
	{"deploy/program/app", []string{"deploy/program", "activities", "api/action", "storage", "workflows"}},
	{"deploy/program", slices.Concat([]string{"deploy/program"}, service)},
	// The world on one computer has no use for the faces of the service.
	{"deploy/standin/devstack", []string{"deploy/standin", "deploy/program", "api/passhash", "storage", "workflows"}},
	{"deploy/standin", []string{"deploy/standin", "storage", "workflows"}},
	{"deploy/proof", slices.Concat([]string{"deploy"}, service)},
	{"deploy/release/examples", []string{"api/sdk"}},
	{"deploy/release", []string{"deploy/standin/build"}},
	{"deploy/cmd/checkout", []string{"deploy/program/app"}},
	{"deploy/cmd", []string{"deploy/program/config", "deploy/standin", "deploy/release"}},
	{"deploy/tools", []string{"deploy/tools"}},
	{"deploy", []string{}},
}

// roomOf returns the room of a package.
func roomOf(pkg string) room {
	return rooms[slices.IndexFunc(rooms, func(r room) bool { return under(pkg, r.name) })]
}

// testStandIns are the stand-ins that tests outside deploy/ use: the acquirer, nodes of blockchains and a mail server.
var testStandIns = []string{"deploy/standin/acquirer", "deploy/standin/chains", "deploy/standin/mailbox"}

// vagueNames say nothing about what a package is for.
var vagueNames = []string{"util", "utils", "common", "helper", "helpers", "type", "types", "misc", "shared"}

// An importLine is one import in one file.
type importLine struct {
	pkg      string // the importing package, from the root of the module
	imported string // the import path as written
	test     bool   // in a _test.go file
}

// broken says which rule the import breaks; empty when none.
func (l importLine) broken() string {
	inside, ok := strings.CutPrefix(l.imported, module+"/")
	isUnder := func(dir string) bool { return under(inside, dir) }
	workers, limited := only[inside]
	switch {
	case under(l.pkg, "deploy") && (!ok || l.test):
		return ""
	case limited && !l.test && !slices.Contains(workers, l.pkg):
		return fmt.Sprintf("%s imports %s: only %s may", l.pkg, inside, listed(workers))
	case under(l.pkg, "deploy"):
		if r := roomOf(l.pkg); !slices.ContainsFunc(r.mayImport, isUnder) {
			return fmt.Sprintf("%s imports %s: packages of %s may import %s", l.pkg, inside, r.name, listed(r.mayImport))
		}
		return ""
	case ok && under(inside, "deploy") && !(l.test && slices.Contains(testStandIns, inside)):
		return fmt.Sprintf("%s imports %s: only packages below deploy/ may import deploy/", l.pkg, inside)
	case l.test:
		return "" // tests may put together what they need
	case ok && !slices.Contains(mayImport[l.pkg], inside):
		return fmt.Sprintf("%s imports %s: of this module it may import %s", l.pkg, inside, listed(mayImport[l.pkg]))
	case l.pkg == "workflows" && slices.Contains(outside, l.imported):
		return fmt.Sprintf("%s imports %s: it tells stories, and package workflows/runs starts them", l.pkg, l.imported)
	case ok || !slices.Contains(leaves, l.pkg):
		return ""
	case under(l.imported, "net/http"):
		return fmt.Sprintf("%s imports %s: it holds rules and knows no HTTP", l.pkg, l.imported)
	case l.imported != idna && strings.Contains(strings.Split(l.imported, "/")[0], "."):
		return fmt.Sprintf("%s imports %s: it may use the standard library only", l.pkg, l.imported)
	}
	return ""
}

func under(pkg, dir string) bool { return pkg == dir || strings.HasPrefix(pkg, dir+"/") }

func listed(names []string) string {
	if len(names) == 0 {
		return "nothing"
	}
	return strings.Join(names, ", ")
}

func TestImports_FollowTheTable(t *testing.T) {
	t.Parallel()
	faults, files := map[string]bool{}, 0
	eachGoFile(t, func(pkg, name string, file *ast.File) {
		files++
		if _, known := mayImport[pkg]; !known && !under(pkg, "deploy") {
			faults[fmt.Sprintf("package %q is not in the table mayImport of this test: say there what it may import", pkg)] = true
		}
		for _, spec := range file.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			require.NoError(t, err)
			line := importLine{pkg: pkg, imported: imported, test: strings.HasSuffix(name, "_test.go")}
			if fault := line.broken(); fault != "" {
				faults[fault+" ("+name+")"] = true
			}
			if imported == module+"/"+treasury && !line.test && ofDeliveries.MatchString(path.Base(name)) {
				faults[name+" imports "+treasury+": it is about webhooks"] = true
			}
		}
	})
	require.Greater(t, files, 50, "the test did not find the sources")
	report(t, faults)
}

func TestImports_TheTableCanFail(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pkg, imported string
		test          bool
		want          string
	}{
		{"storage", module + "/workflows/checkout", false, ""},
		{"storage", "github.com/jackc/pgx/v5", false, ""},
		{"storage", module + "/workflows", false, "storage imports workflows: only worker, deploy/proof/chaos/invariant may"},
		{"storage/pgtemp", module + "/storage", false, "storage/pgtemp imports storage: of this module it may import nothing"},
		{"storage", module + "/storage/pgtemp", true, ""},
		{"workflows", "context", false, "workflows imports context: it tells stories, and package workflows/runs starts them"},
		{"workflows", "go.temporal.io/sdk/client", true, ""},
		{"deploy/proof/chaos", module + "/activities", false, "deploy/proof/chaos imports activities: only worker, workflows, deploy/program/service may"},
		{"deploy/proof/chaos", module + "/activities", true, ""},
		{"deploy/program/service", module + "/activities", false, ""},
		{"api", module + "/deploy/program/config", true, "api imports deploy/program/config: only packages below deploy/ may import deploy/"},
		{"activities/ethereum", module + "/deploy/standin/chains", true, ""},
		{"activities/ethereum", module + "/deploy/standin/chains", false, "activities/ethereum imports deploy/standin/chains: only packages below deploy/ may import deploy/"},
		{"deploy/program/app", module + "/deploy/program/config", false, ""},
		{"deploy/program/app", module + "/api/dashboard", false, "deploy/program/app imports api/dashboard: packages of deploy/program/app may import deploy/program, activities, api/action, storage, workflows"},
		{"workflows/treasury", module + "/workflows/checkout", false, ""},
		{"workflows/checkout", module + "/workflows/treasury", false, "workflows/checkout imports workflows/treasury: of this module it may import workflows/money"},
		{"workflows/webhook", module + "/workflows/treasury", false, "workflows/webhook imports workflows/treasury: of this module it may import workflows/money, workflows/checkout, workflows/merchant"},
		{"workflows/checkout", "encoding/json", false, ""},
		{"workflows/checkout", "net/http/httptest", false, "workflows/checkout imports net/http/httptest: it holds rules and knows no HTTP"},
		{"workflows/webhook", "go.temporal.io/sdk/workflow", false, "workflows/webhook imports go.temporal.io/sdk/workflow: it may use the standard library only"},
		{"workflows/webhook", "golang.org/x/net/idna", false, ""},
		{"workflows/webhook", "golang.org/x/net/http2", false, "workflows/webhook imports golang.org/x/net/http2: it may use the standard library only"},
		{"workflows/webhook", "github.com/stripe/stripe-go/v85/webhook", true, ""},
	} {
		require.Equal(t, c.want, importLine{c.pkg, c.imported, c.test}.broken(), "%s imports %s", c.pkg, c.imported)
	}
}

func TestLayout_TopLevelIsExactlyTheAgreedOne(t *testing.T) {
	t.Parallel()
	entries, err := os.ReadDir(root)
	require.NoError(t, err)
	var names []string
	for _, entry := range entries {
		name := entry.Name()
		// What git ignores is not part of the repository: see .gitignore.
		if !strings.HasPrefix(name, ".") && !strings.HasSuffix(name, ".test") && !strings.HasSuffix(name, ".prof") {
			names = append(names, name)
		}
	}
	require.Equal(t, topLevel, names, "a new one needs a place below, or a reason in README.md and a line in this test")
}

func TestLayout_PackagesHaveNamesThatSaySomething(t *testing.T) {
	t.Parallel()
	faults := map[string]bool{}
	eachGoFile(t, func(pkg, name string, file *ast.File) {
		for _, vague := range []string{path.Base(pkg), strings.TrimSuffix(file.Name.Name, "_test")} {
			if slices.Contains(vagueNames, vague) {
				faults[fmt.Sprintf("package %s is called %q: name it after what it holds (%s)", pkg, vague, name)] = true
			}
		}
	})
	report(t, faults)
}

// eachGoFile calls do with each Go file of the repository: its package from the root of the module, its name from there,
// and its imports. Files for other systems are among them.
func eachGoFile(t *testing.T, do func(pkg, name string, file *ast.File)) {
	eachFile(t, ".go", func(name string) {
		if slices.Contains(strings.Split(name, "/"), "testdata") {
			return
		}
		file, err := parser.ParseFile(token.NewFileSet(), at(name), nil, parser.ImportsOnly)
		require.NoError(t, err)
		do(path.Dir(name), name, file)
	})
}

// report fails the test with one sentence for each fault.
func report(t *testing.T, faults map[string]bool) {
	t.Helper()
	for _, sentence := range slices.Sorted(maps.Keys(faults)) {
		t.Error(sentence)
	}
}
