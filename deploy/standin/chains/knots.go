package chains

import (
	"context"
	_ "embed" // for unpack_knots.sh
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"example.com/checkout/deploy/standin/build"
	"example.com/checkout/storage/pgtemp"
)

// ErrNoKnots means that this computer has no Bitcoin node, and that Debian's mirror gave none. The text has the reason.
var ErrNoKnots = errors.New("the Debian package bitcoin-knots is missing")

// A knots is Debian's package bitcoin-knots with its libraries, unpacked into a directory.
type knots string

// command prepares a program of the package. It runs with the package's own loader: this computer may be older.
func (k knots) command(program string, args ...string) *exec.Cmd {
	root := string(k)
	program = filepath.Join(root, "usr", "bin", program)
	args = append([]string{"--library-path", filepath.Join(root, "libraries"), program}, args...)
	return exec.Command(filepath.Join(root, "loader"), args...) //nolint:gosec,noctx // G204: ours; it outlives ctx
}

// installKnots unpacks the newest bitcoin-knots of Debian, the RPC and wallet of Bitcoin Core, into the user's cache
// unless one is there. It needs Debian and installs nothing. Several processes may call it at once. It returns
// ErrNoKnots.
func installKnots(ctx context.Context) (knots, error) {
	dir, err := build.Cache("bitcoin-knots")
	if err != nil {
		return "", err
	}
	lock, err := pgtemp.Lock(ctx, filepath.Join(dir, "lock"))
	if err != nil {
		return "", fmt.Errorf("wait for another process that unpacks bitcoin-knots: %w", err)
	}
	defer lock.Close() // it also ends the lock

	done, made := filepath.Join(dir, "root"), filepath.Join(dir, "root.new")
	if _, err := os.Stat(done); err == nil {
		return knots(done), nil
	}
	script := exec.CommandContext(ctx, "sh", "-euc", unpackKnots, "sh", made) //nolint:gosec // G204: our script
	if out, err := script.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %w\n%s", ErrNoKnots, err, out)
	}
	return knots(done), os.Rename(made, done)
}

//go:embed unpack_knots.sh
var unpackKnots string
