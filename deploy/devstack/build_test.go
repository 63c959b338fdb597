package devstack

import (
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestGoBuild_TellsHowManyPackagesAreDone checks the progress: seconds alone do not show how long a
// first start takes.
func TestGoBuild_TellsHowManyPackagesAreDone(t *testing.T) {
	t.Parallel()
	source := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":          "module tiny\n\ngo 1.26\n",
		"main.go":         "package main\n\nimport (\n\t\"fmt\"\n\n\t\"tiny/first\"\n\t\"tiny/second\"\n)\n\nfunc main() { fmt.Println(first.Text, second.Text) }\n",
		"first/text.go":   fmt.Sprintf("package first\n\nconst Text = %q\n", rand.Text()), // never in the cache
		"second/text.go":  fmt.Sprintf("package second\n\nconst Text = %q\n", rand.Text()),
		"unused/other.go": "package unused\n",
	} {
		path := filepath.Join(source, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	var told []string
	tell := func(what string) { told = append(told, what) }
	program := filepath.Join(source, "tiny")
	require.NoError(t, goBuild(t.Context(), source, program, tell))
	require.Equal(t, []string{"fetching modules", "0 of 3 packages", "1 of 3 packages", "2 of 3 packages", "linking"}, told)
	require.FileExists(t, program)

	require.NoError(t, os.WriteFile(filepath.Join(source, "main.go"), []byte("package main\n\nfunc main() { missing() }\n"), 0o600))
	require.ErrorContains(t, goBuild(t.Context(), source, program, func(string) {}), "undefined: missing")
}
