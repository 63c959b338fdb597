// Package operate_test runs what a release hands out, as far as one computer can: the chart on a real API
// server, the image in a chroot, the environments of compose.yaml and the units.
package operate_test

import (
	"context"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/proof/e2e"
	"example.com/checkout/deploy/standin/build"
	"example.com/checkout/deploy/standin/need"
)

// Without this flag and e2e.Long nothing is built for minutes.
var withCluster = flag.Bool("kubernetes", false, "test with a real API server and etcd")

func TestMain(m *testing.M) { e2e.MainWithoutShared(m) }

// installed returns the path of a program of a Debian package.
func installed(t *testing.T, name, debian string) string {
	return need.Program(t, "apt-get install "+debian, name)
}

// Programs of modules of their own.
var (
	helmProgram = build.Program{
		Name: "helm", Title: "Helm", Takes: "some minutes", Module: "deploy/tools/helm",
		Package: "helm.sh/helm/v3/cmd/helm", Files: []string{"go.mod", "go.sum"},
	}
	kubeScoreProgram = build.Program{
		Name: "kube-score", Title: "kube-score", Takes: "a minute", Module: "deploy/tools/kubescore",
		Package: "github.com/zegl/kube-score/cmd/kube-score", Files: []string{"go.mod", "go.sum"},
	}
	apiServerProgram = build.Program{
		Name: "kube-apiserver", Title: "Kubernetes' API server", Takes: "ten minutes", Module: "deploy/tools/kubernetes",
		Package: "k8s.io/kubernetes/cmd/kube-apiserver", Files: []string{"go.mod", "go.sum"},
		// Helm asks the server for its version and holds the chart's kubeVersion against it.
		Linker: "-X k8s.io/component-base/version.gitVersion=v" + kubeVersion,
	}
)

// built returns the path of a program that is built unless it is there. Without the flags the test is
// skipped.
func built(t *testing.T, program build.Program) string {
	if !*e2e.Long && !*withCluster {
		t.Skipf("%s is built only with -long or -kubernetes", program.Name)
	}
	path, err := program.Build(context.WithoutCancel(t.Context()), t.Output())
	require.NoError(t, err)
	return path
}

// read returns a file below deploy/release/.
func read(t *testing.T, name string) string {
	content, err := os.ReadFile(filepath.Join(e2e.Path("deploy", "release"), name))
	require.NoError(t, err)
	return string(content)
}

// run runs a program in a directory and returns what it says.
func run(t *testing.T, dir, program string, args ...string) string {
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir = dir
	said, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s %v:\n%s", program, args, said)
	return string(said)
}
