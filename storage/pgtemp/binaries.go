package pgtemp

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
)

// ErrNoBinaries is the error of [FindBinaries] when this computer has no PostgreSQL server programs. It is wrapped.
var ErrNoBinaries = errors.New(
	"no PostgreSQL server programs found (postgres and initdb in one directory): " +
		"install them (Debian and Ubuntu: apt-get install postgresql) or set PG_BIN to their directory",
)

// FindBinaries returns the directory that holds the programs postgres and initdb. It looks at the environment variable
// PG_BIN, PATH and /usr/lib/postgresql/*/bin (newest version first), in that order. A PG_BIN that holds no server is an
// error, never a reason to look elsewhere. The error is [ErrNoBinaries] when there is nothing anywhere.
func FindBinaries() (dir string, err error) {
	if dir := os.Getenv("PG_BIN"); dir != "" {
		if !holdsServer(dir) {
			return "", fmt.Errorf("PG_BIN=%s: %w", dir, ErrNoBinaries)
		}
		return dir, nil
	}
	var candidates []string
	if path, err := exec.LookPath("postgres"); err == nil {
		// A program on the PATH is often a link; the other programs are beside the link's target.
		if real, err := filepath.EvalSymlinks(path); err == nil {
			candidates = append(candidates, filepath.Dir(real))
		}
		candidates = append(candidates, filepath.Dir(path))
	}
	packaged, _ := filepath.Glob("/usr/lib/postgresql/*/bin") // of Debian and Ubuntu; the pattern is good
	slices.SortFunc(packaged, func(a, b string) int { return versionIn(b) - versionIn(a) })
	candidates = append(candidates, packaged...)
	for _, dir := range candidates {
		if holdsServer(dir) {
			return dir, nil
		}
	}
	return "", ErrNoBinaries
}

func holdsServer(dir string) bool {
	for _, name := range []string{"postgres", "initdb"} {
		if _, err := exec.LookPath(filepath.Join(dir, name)); err != nil {
			return false
		}
	}
	return true
}

// versionIn returns the version in /usr/lib/postgresql/VERSION/bin, 0 without one.
func versionIn(path string) int {
	version, _ := strconv.Atoi(filepath.Base(filepath.Dir(path))) // 0 for a directory of another name
	return version
}
