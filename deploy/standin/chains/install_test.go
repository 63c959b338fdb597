package chains

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestInstall_WritesNothingIntoTheSourceTree: package.json is a directory here, which not even root can open to write.
func TestInstall_WritesNothingIntoTheSourceTree(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{
		"package.json/any": "",
		"package-lock.json": `{"packages": {
			"node_modules/` + anvilPackage + `": {"version": "1"}, "node_modules/solc": {"version": "2"}}}`,
		"node_modules/" + anvilPackage + "/package.json": `{"version": "1"}`,
		"node_modules/solc/package.json":                 `{"version": "2"}`,
	} {
		path := filepath.Join(npmDir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	modules, err := Install(t.Context())
	require.NoError(t, err)
	require.Equal(t, "node_modules", filepath.Base(modules))
}
