package e2e_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/proof/e2e"
	"example.com/checkout/deploy/standin/need"
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

// copied returns a copy of a client's directory. Packages of npm are linked. The test is skipped when
// they are needed and not installed; .ci/run installs them.
func copied(t *testing.T, from string) string {
	t.Helper()
	to := t.TempDir()
	entries, err := os.ReadDir(from)
	require.NoError(t, err)
	if _, err := os.Stat(filepath.Join(from, "package.json")); err == nil {
		need.Program(t, "apt-get install npm", "npx")
		packages := filepath.Join(from, "node_modules")
		if _, err := os.Stat(packages); err != nil {
			need.Missing(t, "a package of npm", "npm ci --ignore-scripts --prefix deploy/tools/clients/typescript")
		}
		require.NoError(t, os.Symlink(packages, filepath.Join(to, "node_modules")))
	}
	for _, entry := range entries {
		if entry.Type().IsRegular() {
			require.NoError(t, os.WriteFile(filepath.Join(to, entry.Name()), readFile(t, filepath.Join(from, entry.Name())), 0o600))
		}
	}
	return to
}

// served returns the document as the stack serves it.
func served(t *testing.T, m *e2e.Merchant) []byte {
	t.Helper()
	document := e2e.Ask(t, http.MethodGet, m.Stack.APIURL()+"/v1/openapi.yaml", "").Body
	require.Contains(t, string(document), "servers:\n  - url: "+m.Stack.APIURL()+"\n")
	return document
}

// run runs a command in dir and returns what it wrote to standard output.
func run(t *testing.T, dir string, command []string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), command[0], command[1:]...) // #nosec G204 -- of this file
	c.Dir = dir
	var out, wrong bytes.Buffer
	c.Stdout, c.Stderr = &out, &wrong
	require.NoError(t, c.Run(), "%v\n%s%s", command, out.String(), wrong.String())
	return out.String()
}
