package devstack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	embeddedpostgres "github.com/fergusstrange/embedded-postgres"

	"example.com/checkout/storage/pgtemp"
)

// PostgresRepository names the environment variable that replaces the Maven repository from which [EnsurePostgres]
// downloads PostgreSQL: a mirror, or a server in a test.
const PostgresRepository = "CHECKOUT_POSTGRES_REPOSITORY"

// downloadedVersion is the PostgreSQL that is downloaded when this computer has none.
const downloadedVersion = embeddedpostgres.V17

// EnsurePostgres returns a directory that holds the programs postgres and initdb; what it does is told to out.
// It takes what this computer has (see [pgtemp.FindBinaries]). Without any, root on Debian or Ubuntu gets the
// distribution's package, anybody else a download into the user's cache directory, about 10 MB, once.
func EnsurePostgres(ctx context.Context, out io.Writer) (binDir string, err error) {
	dir, err := pgtemp.FindBinaries()
	if !errors.Is(err, pgtemp.ErrNoBinaries) {
		return dir, err
	}
	if os.Getenv("PG_BIN") != "" {
		return "", err // who names a directory does not want another one
	}
	if _, lookErr := exec.LookPath("apt-get"); lookErr == nil && os.Geteuid() == 0 {
		return installPostgres(ctx, out)
	}
	return downloadPostgres(ctx, out)
}

// clusterConfig keeps Debian's package from creating and starting a server of its own. A file of its own in
// createcluster.d raises no question about a changed configuration file.
const clusterConfig = "/etc/postgresql-common/createcluster.d/checkout-devstack.conf"

// installPostgres installs the distribution's package and starts nothing.
func installPostgres(ctx context.Context, out io.Writer) (string, error) {
	if err := os.MkdirAll(filepath.Dir(clusterConfig), 0o755); err != nil {
		return "", err
	}
	if err := os.WriteFile(clusterConfig, []byte("create_main_cluster = false\n"), 0o644); err != nil {
		return "", err
	}
	progress := startProgress(out)
	defer progress.end()
	for _, args := range [][]string{
		{"update"},
		{"install", "-y", "--no-install-recommends", "postgresql"},
	} {
		progress.step("PostgreSQL is missing: apt-get " + args[0])
		apt := exec.CommandContext(ctx, "apt-get", args...)
		apt.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if said, err := apt.CombinedOutput(); err != nil {
			return "", fmt.Errorf("apt-get %s: %w:\n%s", args[0], err, said)
		}
	}
	return pgtemp.FindBinaries()
}

// downloadPostgres fetches PostgreSQL from a Maven repository. The library that knows how is made to start and
// stop a server; only the programs it unpacks are used, because a server that it starts outlives its parent.
func downloadPostgres(ctx context.Context, out io.Writer) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no cache directory for PostgreSQL: %w", err)
	}
	home := filepath.Join(cache, "checkout-devstack")
	dir := filepath.Join(home, "postgresql-"+string(downloadedVersion))
	binDir := filepath.Join(dir, "bin")
	if exists(dir) {
		return binDir, nil
	}
	if err := os.MkdirAll(home, 0o755); err != nil {
		return "", err
	}
	progress := startProgress(out)
	defer progress.end()
	progress.step("PostgreSQL is missing: downloading version " + string(downloadedVersion))

	// Unpacked under another name first: a half unpacked directory must not look like a whole one.
	unpacked, err := os.MkdirTemp(home, "postgresql-new-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(unpacked) // gone already when all went well
	scratch, err := os.MkdirTemp("", "checkout-devstack-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(scratch)
	ports, err := Free(1)
	if err != nil {
		return "", err
	}
	config := embeddedpostgres.DefaultConfig().Version(downloadedVersion).Port(uint32(ports[0])).Logger(io.Discard).
		CachePath(filepath.Join(scratch, "archive")).RuntimePath(filepath.Join(scratch, "run")).BinariesPath(unpacked)
	if repository := os.Getenv(PostgresRepository); repository != "" {
		config = config.BinaryRepositoryURL(repository)
	}
	server := embeddedpostgres.NewDatabase(config)
	startErr := server.Start()
	if startErr == nil {
		startErr = server.Stop()
	}
	if err := ctx.Err(); err != nil {
		return "", context.Cause(ctx)
	}
	// Start may well fail after the download: it refuses to run as root, which pgtemp does not.
	// Whether the programs are good is seen by running one.
	if err := exec.CommandContext(ctx, filepath.Join(unpacked, "bin", "postgres"), "--version").Run(); err != nil {
		return "", fmt.Errorf("download PostgreSQL %s: %w (%s chooses another repository; or install PostgreSQL)",
			downloadedVersion, errors.Join(startErr, err), PostgresRepository)
	}
	// Another process may have been faster, with the same content.
	if err := os.Rename(unpacked, dir); err != nil && !exists(dir) {
		return "", err
	}
	return binDir, nil
}
