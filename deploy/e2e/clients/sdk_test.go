package clients

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/e2e"
)

// TestSDK_GoIsGeneratedFromTheDocument: the types of the SDK are those of the document. The SDK is a
// module of its own, so its tests run here.
func TestSDK_GoIsGeneratedFromTheDocument(t *testing.T) {
	t.Parallel()
	dir := copied(t, e2e.Path("deploy", "tools", "clients", "oapicodegen"))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "openapi.yaml"), read(t, e2e.Path("api", "openapi.yaml")), 0o600))
	run(t, dir, []string{"go", "tool", "oapi-codegen", "-config", "sdk.yaml", "openapi.yaml"})
	want := strings.Split(string(read(t, filepath.Join(dir, "models.gen.go"))), "\n")
	got := strings.Split(string(read(t, e2e.Path("api", "sdk", "models.gen.go"))), "\n")
	for i := range min(len(want), len(got)) {
		require.Equal(t, want[i], got[i], "models.gen.go:%d; api/sdk/README.md says how to generate it", i+1)
	}
	require.Len(t, got, len(want))
	for _, module := range []string{e2e.Path("api", "sdk"), e2e.Path("deploy", "examples", "go")} {
		run(t, module, []string{"go", "vet", "./..."})
		run(t, module, []string{"go", "test", "./..."})
		run(t, module, []string{"go", "mod", "tidy", "-diff"})
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path) // #nosec G304 -- of the repository
	require.NoError(t, err)
	return content
}
