package devstack

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOpenDataDir_FreshRemovesOnlyWhatAStackMade(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "postgres", "data"), 0o700))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "bitcoin", "regtest"), 0o700)) // the live double's
	require.NoError(t, os.WriteFile(filepath.Join(dir, "bitcoin-password"), []byte("x"), 0o600))
	d, err := openDataDir(t.Context(), dir, true)
	require.NoError(t, err)
	require.NoDirExists(t, filepath.Join(dir, "postgres"))
	require.NoDirExists(t, filepath.Join(dir, "bitcoin"))

	require.NoError(t, os.MkdirAll(filepath.Join(dir, "postgres"), 0o700))
	_, err = openDataDir(t.Context(), dir, true)
	require.ErrorContains(t, err, "another devstack runs")
	require.DirExists(t, filepath.Join(dir, "postgres"), "the running stack's data is left alone")
	require.NoError(t, d.Close())

	require.NoError(t, os.WriteFile(filepath.Join(dir, "thesis.txt"), []byte("x"), 0o600))
	_, err = openDataDir(t.Context(), dir, true)
	require.ErrorContains(t, err, "thesis.txt")
	require.DirExists(t, filepath.Join(dir, "postgres"))
	d, err = openDataDir(t.Context(), dir, false)
	require.NoError(t, err)
	require.NoError(t, d.Close())
}
