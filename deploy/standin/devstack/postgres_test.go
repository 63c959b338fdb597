package devstack

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/standin/build"
	"example.com/checkout/deploy/standin/need"
	"example.com/checkout/storage/pgtemp"
)

func TestEnsurePostgres_TakesWhatThisComputerHas(t *testing.T) {
	want, err := pgtemp.FindBinaries()
	require.NoError(t, err)
	var out bytes.Buffer
	got, err := EnsurePostgres(t.Context(), &out)
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.Empty(t, out.String())
}

func TestEnsurePostgres_WrongPGBinIsAnError(t *testing.T) {
	t.Setenv("PG_BIN", t.TempDir())
	_, err := EnsurePostgres(t.Context(), io.Discard)
	require.ErrorIs(t, err, pgtemp.ErrNoBinaries)
}

// A repository on loopback serves this computer's own programs in Maven's form: a zip file that holds a .txz file.
func TestDownloadPostgres(t *testing.T) {
	local, err := pgtemp.FindBinaries()
	require.NoError(t, err)
	root := filepath.Dir(local)
	need.Program(t, "apt-get install xz-utils", "xz") // for tar
	pack := exec.Command("tar", "--xz", "-C", root, "--exclude=bitcode", "--exclude=pgxs", "-cf", "-",
		"bin/postgres", "bin/initdb", "bin/pg_ctl")
	for _, part := range []string{"lib", "share"} {
		if build.Exists(filepath.Join(root, part)) {
			pack.Args = append(pack.Args, part)
		}
	}
	pack.Env = append(os.Environ(), "XZ_OPT=-0") // fast rather than small
	txz, err := pack.Output()
	require.NoError(t, err)
	var jar bytes.Buffer
	archive := zip.NewWriter(&jar)
	entry, err := archive.Create("postgres.txz")
	require.NoError(t, err)
	_, err = entry.Write(txz)
	require.NoError(t, err)
	require.NoError(t, archive.Close())
	sum := sha256.Sum256(jar.Bytes())

	var requests int
	repository := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests++
		if strings.HasSuffix(r.URL.Path, ".sha256") {
			_, _ = io.WriteString(w, hex.EncodeToString(sum[:])) // an error means that the client has gone
			return
		}
		_, _ = w.Write(jar.Bytes())
	}))
	defer repository.Close()
	t.Setenv(PostgresRepository, repository.URL)
	t.Setenv("XDG_CACHE_HOME", t.TempDir())

	binDir, err := downloadPostgres(t.Context(), io.Discard)
	require.NoError(t, err)
	require.Equal(t, 2, requests, "the archive and its checksum")
	require.True(t, strings.HasSuffix(filepath.Dir(binDir), string(downloadedVersion)), binDir)
	again, err := downloadPostgres(t.Context(), io.Discard)
	require.NoError(t, err)
	require.Equal(t, binDir, again)
	require.Equal(t, 2, requests, "downloaded once")

	server, err := pgtemp.Start(t.Context(), pgtemp.Options{BinDir: binDir, Throwaway: true})
	require.NoError(t, err)
	require.NoError(t, server.Stop())
	left, err := filepath.Glob(filepath.Join(filepath.Dir(filepath.Dir(binDir)), "*-new-*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestDownloadPostgres_RepositoryIsDown(t *testing.T) {
	repository := httptest.NewServer(http.NotFoundHandler())
	defer repository.Close()
	t.Setenv(PostgresRepository, repository.URL)
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	_, err := downloadPostgres(t.Context(), io.Discard)
	require.ErrorContains(t, err, PostgresRepository)
	require.ErrorContains(t, err, "no version found")
}
