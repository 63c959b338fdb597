package e2e_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/proof/e2e"
)

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
	t.Helper()
	want, got := strings.Split(string(readFile(t, generated)), "\n"), strings.Split(string(readFile(t, stored)), "\n")
	for i := range min(len(want), len(got)) {
		require.Equal(t, want[i], got[i], "%s:%d; the README.md there says how to generate it", stored, i+1)
	}
	require.Len(t, got, len(want))
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path) // #nosec G304 -- of the repository
	require.NoError(t, err)
	return content
}
