package operate_test

import (
	"debug/buildinfo"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/proof/e2e"
	"example.com/checkout/deploy/release"
	"example.com/checkout/deploy/standin/devstack"
)

// TestImage_DeliversOverHTTPS builds the image of container/Dockerfile and runs its worker as a container
// would: from nothing but the image, read-only, as its user. The worker delivers to a receiver whose
// authority it knows from a file.
func TestImage_DeliversOverHTTPS(t *testing.T) {
	e2e.OnlyLong(t)
	if os.Geteuid() != 0 {
		t.Skip("only root can mount the image")
	}
	buildah, umoci := installed(t, "buildah", "buildah"), installed(t, "umoci", "umoci")
	dir := t.TempDir()
	program := filepath.Join(dir, "context", "checkout")
	require.NoError(t, release.Program(t.Context(), release.Platform{OS: "linux", Arch: runtime.GOARCH}, "0.0.0", program))
	info, err := buildinfo.ReadFile(program)
	require.NoError(t, err)
	roots := "golang.org/x/crypto/x509roots/fallback" // a container from scratch has no others
	require.True(t, slices.ContainsFunc(info.Deps, func(m *debug.Module) bool { return m.Path == roots }), "the program brings root certificates")

	var digests []string
	for _, try := range []string{"first", "second"} {
		storage := []string{"--storage-driver", "vfs", "--root", filepath.Join(dir, try), "--runroot", filepath.Join(dir, try+"-run")}
		run(t, dir, buildah, append(storage, "bud", "--isolation", "chroot", "--timestamp", "0", "--tag", "checkout",
			"--file", e2e.Path("deploy/release/container/Dockerfile"), filepath.Dir(program))...)
		run(t, dir, buildah, append(storage, "push", "checkout", "oci:"+filepath.Join(dir, try+"-image")+":checkout")...)
		var index struct{ Manifests []struct{ Digest string } }
		content, err := os.ReadFile(filepath.Join(dir, try+"-image", "index.json"))
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(content, &index))
		digests = append(digests, index.Manifests[0].Digest)
	}
	require.Equal(t, digests[0], digests[1], "the same program makes the same image")
	run(t, dir, umoci, "unpack", "--image", filepath.Join(dir, "first-image")+":checkout", filepath.Join(dir, "bundle"))

	stack := e2e.OwnStack(t, devstack.Options{})
	require.NoError(t, stack.Worker.Stop(time.Minute))
	arrived := make(chan string, 10)
	receiver := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		arrived <- r.URL.Path
	}))
	t.Cleanup(receiver.Close)
	root := filepath.Join(dir, "bundle", "rootfs")
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: receiver.Certificate().Raw})
	require.NoError(t, os.WriteFile(filepath.Join(root, "ca.crt"), authority, 0o644))

	require.NoError(t, os.Mkdir(filepath.Join(root, "proc"), 0o755)) // each container has it

	worker := start(t, devstack.Program{
		Name: "worker of the image", Path: "/usr/bin/unshare", Dir: dir, Log: filepath.Join(dir, "worker.log"),
		Args: []string{"--mount", "sh", "-ec", `mount --bind "$0" "$0"; mount --rbind /proc "$0/proc"; mount -o remount,ro,bind "$0"
			exec chroot --userspec=` + release.User + ` "$0" /checkout worker`, root},
		Env: append(stack.Environment(), "SSL_CERT_FILE=/ca.crt"),
	})
	m := e2e.NewMerchant(t, stack)
	m.Must(http.StatusCreated, http.MethodPost, "/v1/webhooks", `{"url": "`+receiver.URL+`/hook", "events": ["checkout.completed"]}`)
	m.MustPay(m.Create(e2e.Terms), e2e.CardSucceeds)
	select {
	case path := <-arrived:
		require.Equal(t, "/hook", path)
	case <-time.After(e2e.LeastPatience):
		said, _ := os.ReadFile(filepath.Join(dir, "worker.log"))
		t.Fatalf("nothing arrived: %v\n%s", worker.Err(), said)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", worker.PID()))
	require.NoError(t, err)
	require.Regexp(t, `(?m)^Uid:\t65532\t65532\t65532\t65532$`, string(status))
	mounts, err := os.ReadFile(fmt.Sprintf("/proc/%d/mounts", worker.PID()))
	require.NoError(t, err)
	require.Regexp(t, `(?m)^\S+ / \S+ ro,`, string(mounts))
}
