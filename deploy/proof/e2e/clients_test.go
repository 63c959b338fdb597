package e2e_test

import (
	"bytes"
	"encoding/json"
	"html"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/proof/e2e"
	"example.com/checkout/deploy/standin/need"
	"example.com/checkout/storage/storagetest/must"
)

// generated are clients below deploy/tools/clients: the commands that generate each from
// openapi.yaml and compile it, and then the one that runs it.
var generated = map[string][][]string{
	"oapicodegen": {
		{"go", "tool", "oapi-codegen", "-config", "config.yaml", "openapi.yaml"},
		{"go", "run", "-trimpath", "."}, // then the compiled client does not depend on the directory, and Go's cache has it
	},
	"ogen": {
		{"go", "tool", "ogen", "-loglevel", "error", "-target", "client", "-package", "client", "openapi.yaml"},
		{"go", "run", "-trimpath", "."},
	},
	"typescript": {
		{"npx", "spectral", "lint", "--fail-severity", "hint", "openapi.yaml"},
		{"npx", "openapi-typescript", "openapi.yaml", "-o", "openapi.d.ts"},
		{"npx", "orval"},
		{"npx", "openapi-ts"},
		{"npx", "swagger-typescript-api", "generate", "-p", "openapi.yaml", "-o", ".", "-n", "swagger.ts"},
		{"npx", "tsc"},
		{"node", "out/main.js"},
	},
}

// said is what every client prints. The amounts are such that a float of 32 bits holds other ones.
const said = `amount 300000.33
amount 999999.99
amount 0.50
amount 10.10
pages 3 sessions 5
refused order_id_in_use pending true
expired true
payout.reduced 24.75
dispute.closed lost
dispute.opened needs_response
refund.failed returned
refund.succeeded 25.00
merchant.updated 1
payout.failed network_error
payout.sent 108.000000
checkout.failed card_declined
checkout.completed 100.50
replayed true
deleted true
`

// TestGeneratedClients_WorkWithAStack: each client creates, gets, pages, expires, registers a
// webhook, gets events, replays a delivery, and narrows errors and events by their discriminators.
func TestGeneratedClients_WorkWithAStack(t *testing.T) {
	t.Parallel()
	e2e.OnlyLong(t)
	for name, commands := range generated {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := e2e.NewMerchant(t, e2e.Shared)
			dir := copied(t, e2e.Path("deploy", "tools", "clients", name))
			require.NoError(t, os.WriteFile(filepath.Join(dir, "openapi.yaml"), served(t, m), 0o600))
			for _, command := range commands[:len(commands)-1] {
				run(t, dir, command)
			}
			shop := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})) // answers 200
			defer shop.Close()
			client := slices.Concat(commands[len(commands)-1], []string{m.Stack.APIURL(), m.Key, shop.URL})
			require.Equal(t, said, run(t, dir, client))
			require.Equal(t, []int64{50, 10_10, 20_00, 300000_33, 999999_99}, e2e.Query[[]int64](t, m.Stack,
				`SELECT array_agg(amount ORDER BY amount) FROM checkout_session WHERE merchant_id = $1`, m.ID))
		})
	}
}

// copied returns a copy of a client's directory. Packages of npm are linked.
func copied(t *testing.T, from string) string {
	to := t.TempDir()
	entries := must.Get(os.ReadDir(from))(t)
	if _, err := os.Stat(filepath.Join(from, "package.json")); err == nil {
		need.Program(t, "apt-get install npm", "npx")
		require.NoError(t, os.Symlink(npmPackages(t), filepath.Join(to, "node_modules")))
	}
	for _, entry := range entries {
		if entry.Type().IsRegular() {
			require.NoError(t, os.WriteFile(filepath.Join(to, entry.Name()), readFile(t, filepath.Join(from, entry.Name())), 0o600))
		}
	}
	return to
}

// npmPackages returns the directory of the packages of npm. The test is skipped when they are not installed; .ci/run
// installs them.
func npmPackages(t *testing.T) string {
	packages := e2e.Path("deploy", "tools", "clients", "typescript", "node_modules")
	if _, err := os.Stat(packages); err != nil {
		need.Missing(t, "a package of npm", "npm ci --ignore-scripts --prefix deploy/tools/clients/typescript")
	}
	return packages
}

func served(t *testing.T, m *e2e.Merchant) []byte {
	document := e2e.Ask(t, http.MethodGet, m.Stack.APIURL()+"/v1/openapi.yaml", "").Body
	require.Contains(t, string(document), "servers:\n  - url: "+m.Stack.APIURL()+"\n")
	return document
}

func run(t *testing.T, dir string, command []string) string {
	c := exec.CommandContext(t.Context(), command[0], command[1:]...) // #nosec G204 -- of this file
	c.Dir = dir
	var out, wrong bytes.Buffer
	c.Stdout, c.Stderr = &out, &wrong
	require.NoError(t, c.Run(), "%v\n%s%s", command, out.String(), wrong.String())
	return out.String()
}

// TestSDK_GoIsGeneratedFromTheDocument: the types of the SDK are those of the document. The SDK is a
// module of its own, so its tests run here.
func TestSDK_GoIsGeneratedFromTheDocument(t *testing.T) {
	t.Parallel()
	dir := copied(t, e2e.Path("deploy", "tools", "clients", "oapicodegen"))
	// The generator would write a schema's examples into the comment of every field.
	document := regexp.MustCompile(`(?m)^      examples: \[.*\n`).ReplaceAll(readFile(t, e2e.Path("api", "openapi.yaml")), nil)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "openapi.yaml"), document, 0o600))
	run(t, dir, []string{"go", "tool", "oapi-codegen", "-config", "sdk.yaml", "openapi.yaml"})
	requireSame(t, filepath.Join(dir, "models.gen.go"), e2e.Path("api", "sdk", "models.gen.go"))
	for _, module := range []string{e2e.Path("api", "sdk"), e2e.Path("deploy", "release", "examples", "go")} {
		run(t, module, []string{"go", "vet", "./..."})
		run(t, module, []string{"go", "test", "./..."})
		run(t, module, []string{"go", "mod", "tidy", "-diff"})
	}
}

func TestSDK_TypeScriptIsGeneratedFromTheDocument(t *testing.T) {
	t.Parallel()
	dir := copied(t, e2e.Path("deploy", "tools", "clients", "typescript"))
	run(t, dir, []string{"npx", "openapi-typescript", e2e.Path("api", "openapi.yaml"), "-o", "openapi.ts"})
	requireSame(t, filepath.Join(dir, "openapi.ts"), e2e.Path("api", "sdk", "typescript", "src", "openapi.ts"))
}

// requireSame names the first line in which a stored file differs from a generated one.
func requireSame(t *testing.T, generated, stored string) {
	want, got := strings.Split(string(readFile(t, generated)), "\n"), strings.Split(string(readFile(t, stored)), "\n")
	for i := range min(len(want), len(got)) {
		require.Equal(t, want[i], got[i], "%s:%d; the README.md there says how to generate it", stored, i+1)
	}
	require.Len(t, got, len(want))
}

func readFile(t *testing.T, path string) []byte {
	content, err := os.ReadFile(path) // #nosec G304 -- of the repository
	require.NoError(t, err)
	return content
}

// TestGuide_ItsSamplesCreateASessionInEachLanguage runs the samples as the guide of a running service shows them.
func TestGuide_ItsSamplesCreateASessionInEachLanguage(t *testing.T) {
	t.Parallel()
	m := e2e.NewMerchant(t, e2e.Shared)
	page := e2e.Ask(t, http.MethodGet, e2e.Shared.APIURL()+"/docs", "").Body
	tabs, _, _ := strings.Cut(string(page[strings.Index(string(page), "<fieldset"):]), "</fieldset>")
	require.Contains(t, string(page), "export CHECKOUT_API_URL="+e2e.Shared.APIURL()+"\n", "the reader's own address")
	samples := regexp.MustCompile(`(?s)<code class="language-(\w+)">(.*?)</code>`).FindAllStringSubmatch(tabs, -1)

	require.Len(t, samples, len(samplePrograms))
	seen := map[string]bool{}
	for _, sample := range samples {
		t.Run(sample[1], func(t *testing.T) {
			program := samplePrograms[sample[1]]
			need.Program(t, "apt-get install "+program.debian, program.needs)
			dir := t.TempDir()
			source := filepath.Join(dir, program.command[len(program.command)-1])
			require.NoError(t, os.WriteFile(source, []byte(html.UnescapeString(sample[2])), 0o600))
			for range 2 { // a fresh key each time
				c := exec.CommandContext(t.Context(), program.command[0], program.command[1:]...) // #nosec G204 -- of this file
				c.Dir, c.Env = dir, append(os.Environ(), "CHECKOUT_API_URL="+e2e.Shared.APIURL(), "CHECKOUT_API_KEY="+m.Key)
				out, err := c.Output()
				require.NoError(t, err, "%s", out)
				var session struct{ ID, Status string }
				require.NoError(t, json.Unmarshal(out, &session), "%s", out)
				require.Equal(t, "pending", session.Status, "%s", out)
				require.False(t, seen[session.ID], "it answers an earlier session")
				seen[session.ID] = true
			}
		})
	}
}

// samplePrograms run the guide's samples. debian is the package with the program that a sample needs.
var samplePrograms = map[string]struct {
	command       []string
	needs, debian string
}{
	"sh":     {[]string{"sh", "sample.sh"}, "curl", "curl"},
	"go":     {[]string{"go", "run", "sample.go"}, "go", "golang"},
	"ts":     {[]string{"node", "sample.mjs"}, "node", "nodejs"},
	"python": {[]string{"python3", "sample.py"}, "python3", "python3"},
}
