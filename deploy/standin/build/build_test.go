package build

import (
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestGoBuild_TellsHowManyPackagesAreDone checks the progress: seconds alone do not show how long a first start takes.
func TestGoBuild_TellsHowManyPackagesAreDone(t *testing.T) {
	t.Parallel()
	source := t.TempDir()
	write(t, source, map[string]string{
		"go.mod":          "module tiny\n\ngo 1.26\n",
		"main.go":         "package main\n\nimport (\n\t\"fmt\"\n\n\t\"tiny/first\"\n\t\"tiny/second\"\n)\n\nfunc main() { fmt.Println(first.Text, second.Text) }\n",
		"first/text.go":   "package first\n\nconst Text = \"\"\n",
		"second/text.go":  "package second\n\nconst Text = \"\"\n",
		"unused/other.go": "package unused\n",
	})
	program := filepath.Join(source, "tiny")
	var told []string
	report := func(what string) { told = append(told, what) }
	// The standard library may be missing in Go's cache.
	require.NoError(t, goBuild(t.Context(), source, ".", nil, program, report))

	told = nil
	write(t, source, map[string]string{ // such texts are never in the cache
		"first/text.go":  fmt.Sprintf("package first\n\nconst Text = %q\n", rand.Text()),
		"second/text.go": fmt.Sprintf("package second\n\nconst Text = %q\n", rand.Text()),
	})
	require.NoError(t, goBuild(t.Context(), source, ".", nil, program, report))
	require.Equal(t, []string{"fetching modules", "0 of 3 packages", "1 of 3 packages", "2 of 3 packages", "linking"}, told)
	require.FileExists(t, program)

	write(t, source, map[string]string{"main.go": "package main\n\nfunc main() { missing() }\n"})
	err := goBuild(t.Context(), source, ".", nil, program, func(string) {})
	require.ErrorContains(t, err, "undefined: missing")
}

// TestWithout_NeedsNoStub is what an update of a module may bring.
func TestWithout_NeedsNoStub(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, map[string]string{"a.go": "package a\n\nimport _ \"example.com/cloud/storage\"\n"})
	overlay := map[string]string{}

	require.NoError(t, Without{Libraries: []string{"example.com/cloud/"}}.leaveOut(overlay, dir))
	require.Equal(t, map[string]string{filepath.Join(dir, "a.go"): ""}, overlay)

	err := Without{Libraries: []string{"example.com/sky/"}}.leaveOut(overlay, dir)
	require.ErrorContains(t, err, "it needs no stub")
}

func write(t *testing.T, dir string, files map[string]string) {
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
}
