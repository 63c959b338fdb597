package e2e_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/proof/e2e"
	"example.com/checkout/deploy/standin/need"
)

// typeScriptProgram builds the SDK for TypeScript, packs it, installs it from the package into a copy
// of the shop at file, and compiles the shop. The test is skipped when npm's packages are not
// installed; .ci/run installs them.
func typeScriptProgram(t *testing.T, file string) (string, []string) {
	t.Helper()
	node := need.Program(t, "apt-get install nodejs", "node")
	need.Program(t, "apt-get install npm", "npm")
	packages := e2e.Path("deploy", "tools", "clients", "typescript", "node_modules")
	if _, err := os.Stat(packages); err != nil {
		need.Missing(t, "a package of npm", "npm ci --ignore-scripts --prefix deploy/tools/clients/typescript")
	}
	compiler := filepath.Join(packages, "typescript", "bin", "tsc")
	program := builtOnce(t, file, func(dir string) string {
		sdk, shop := filepath.Join(dir, "sdk"), filepath.Join(dir, "shop")
		require.NoError(t, os.CopyFS(sdk, os.DirFS(e2e.Path("api", "sdk", "typescript"))))
		require.NoError(t, os.CopyFS(shop, os.DirFS(filepath.Dir(file))))
		require.NoError(t, os.Symlink(packages, filepath.Join(sdk, "node_modules")))
		for _, step := range []struct {
			dir     string
			command []string
		}{
			{sdk, []string{"node", compiler}},
			{sdk, []string{"npm", "pack", "--silent"}},
			{shop, []string{
				"npm", "install", "--no-save", "--prefer-offline", "--ignore-scripts", "--no-audit", "--no-fund",
				filepath.Join(sdk, "checkout-sdk-1.0.0.tgz"),
			}},
			{shop, []string{"node", compiler, "--typeRoots", filepath.Join(packages, "@types")}},
		} {
			c := exec.CommandContext(t.Context(), step.command[0], step.command[1:]...) // #nosec G204 -- of this file
			c.Dir = step.dir
			out, err := c.CombinedOutput()
			require.NoError(t, err, "%v: %s", step.command, out)
		}
		return filepath.Join(shop, "out", "shop.js")
	})
	return node, []string{program}
}
