package operate_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/proof/e2e"
	"example.com/checkout/deploy/release"
)

// TestRelease_IsTheSameTwice makes a release twice, and looks at what a stranger does with it: checks its
// sums, installs its chart and unpacks its image.
func TestRelease_IsTheSameTwice(t *testing.T) {
	t.Parallel()
	if !*e2e.Long {
		t.Skip("a release is made only with -long")
	}
	platforms := []release.Platform{{OS: "linux", Arch: runtime.GOARCH}}
	var sums []string
	dir := t.TempDir()
	for _, try := range []string{"first", "second"} {
		out := filepath.Join(dir, try)
		require.NoError(t, release.Make(t.Context(), "1.0.0", out, platforms, func(step string) { t.Log(step) }))
		content, err := os.ReadFile(filepath.Join(out, "SHA256SUMS"))
		require.NoError(t, err)
		sums = append(sums, string(content))
	}
	require.Equal(t, sums[0], sums[1])
	out := filepath.Join(dir, "first")
	run(t, out, "sha256sum", "--check", "--strict", "SHA256SUMS")
	require.ErrorContains(t, release.Make(t.Context(), "1.0.0", out, platforms, func(string) {}), "not empty")
	require.ErrorContains(t, release.Make(t.Context(), "latest", dir, platforms, func(string) {}), "no version")
	require.ErrorContains(t, release.Make(t.Context(), "1.0.1", filepath.Join(dir, "third"), platforms, func(string) {}), `notes.md has no section "## 1.0.1"`)

	program := filepath.Join(out, "checkout-1.0.0-linux-"+runtime.GOARCH)
	require.Contains(t, run(t, out, program, "help"), "checkout runs the service")
	require.Contains(t, run(t, out, "tar", "--list", "--gzip", "--file", "checkout-1.0.0-files.tar.gz"), "checkout/compose/compose.yaml\n")
	bom, err := os.ReadFile(program + ".cdx.json")
	require.NoError(t, err)
	require.Contains(t, string(bom), `"purl": "pkg:golang/go.temporal.io/sdk@v`)

	licenses, err := os.ReadFile(filepath.Join(out, "checkout-1.0.0-licenses.txt"))
	require.NoError(t, err)
	require.Regexp(t, `==== go.temporal.io/sdk v\S+ ====\s+The MIT License`, string(licenses))

	image := filepath.Join(dir, "image")
	require.NoError(t, os.Mkdir(image, 0o700))
	run(t, image, "tar", "--extract", "--file", filepath.Join(out, "checkout-1.0.0-image.tar"))
	if umoci, err := exec.LookPath("umoci"); err == nil && os.Geteuid() == 0 {
		require.Contains(t, run(t, image, umoci, "list", "--layout", "."), "checkout:1.0.0")
	}
	chart := run(t, out, built(t, helmProgram), "template", "shop", "checkout-1.0.0.tgz", "--kube-version", kubeVersion,
		"--values", e2e.Path("deploy/proof/operate/testdata/values/everything.yaml"))
	require.Contains(t, chart, "kind: PrometheusRule")
}
