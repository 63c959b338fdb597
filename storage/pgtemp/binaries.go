package pgtemp

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strconv"
)

// ErrNoBinaries is the error of [FindBinaries] when this computer has no PostgreSQL server
// programs. It is wrapped.
var ErrNoBinaries = errors.New("no PostgreSQL server programs found (postgres and initdb in one directory): " +
	"install them (Debian and Ubuntu: apt-get install postgresql; Fedora: dnf install postgresql-server; " +
	"macOS: brew install postgresql@17) or set PG_BIN to their directory")

// FindBinaries returns the directory that holds the programs postgres and initdb.
// It looks at the environment variable PG_BIN, PATH, /usr/lib/postgresql/*/bin (newest version first) and Homebrew, in
// that order. A PG_BIN that holds no server is an error, never a reason to look elsewhere.
// The error is [ErrNoBinaries] when there is nothing anywhere.
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
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin",          // Debian, Ubuntu
		"/usr/pgsql-*/bin",                   // packages of postgresql.org for Fedora and RHEL
		"/opt/homebrew/opt/postgresql@*/bin", // Homebrew on Apple silicon
		"/usr/local/opt/postgresql@*/bin",    // Homebrew on Intel
		"/home/linuxbrew/.linuxbrew/opt/postgresql@*/bin",
	} {
		found, _ := filepath.Glob(pattern) // the only possible error is a bad pattern
		sort.Slice(found, func(i, j int) bool { return versionIn(found[i]) > versionIn(found[j]) })
		candidates = append(candidates, found...)
	}
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

// versionIn returns the first number in the directory's path: 17 for /usr/lib/postgresql/17/bin; 0 without one.
func versionIn(path string) int {
	start := -1
	for i, r := range path {
		digit := r >= '0' && r <= '9'
		if digit && start < 0 {
			start = i
		}
		if !digit && start >= 0 {
			n, _ := strconv.Atoi(path[start:i]) // digits only
			return n
		}
	}
	return 0
}
