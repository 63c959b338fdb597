package workflows_test

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/storage/storagetest/must"
)

// TestHistories_AreOnlyAdded holds the digests of the stored histories: a workflow that no longer
// replays one is mended, the history stays as it is. A new history gets a line:
//
//	cd workflows/testdata/histories && sha256sum NAME.json >> SHA256SUMS
func TestHistories_AreOnlyAdded(t *testing.T) {
	t.Parallel()
	dir := filepath.Join("testdata", "histories")
	list := must.Get(os.ReadFile(filepath.Join(dir, "SHA256SUMS")))(t)
	want := map[string]string{}
	for line := range strings.Lines(string(list)) {
		digest, name, ok := strings.Cut(strings.TrimSpace(line), "  ")
		require.True(t, ok, line)
		want[name] = digest
	}
	files := must.Get(filepath.Glob(filepath.Join(dir, "*.json")))(t)
	is := map[string]string{}
	for _, file := range files {
		text := must.Get(os.ReadFile(file))(t)
		sum := sha256.Sum256(text)
		is[filepath.Base(file)] = hex.EncodeToString(sum[:])
	}
	require.Equal(t, want, is)
}
