package pgtemp

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// superuser is the only role of a new cluster.
const superuser = "postgres"

// A cluster is the data directory of a server, with its password.
type cluster struct {
	dir    string // the directory of data, password and postgres.log
	binDir string
	user   osUser
}

func (c cluster) data() string     { return filepath.Join(c.dir, "data") }
func (c cluster) password() string { return filepath.Join(c.dir, "password") }
func (c cluster) log() string      { return filepath.Join(c.dir, "postgres.log") }

func (c cluster) storedPassword() (string, error) {
	stored, err := os.ReadFile(c.password())
	if err != nil {
		return "", fmt.Errorf("password of the cluster in %s: %w", c.dir, err)
	}
	return strings.TrimSpace(string(stored)), nil
}

// command prepares a program of PostgreSQL to run as the cluster's user.
func (c cluster) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(c.binDir, name), args...)
	cmd.Dir = c.dir
	cmd.Env = environment()
	c.user.apply(cmd)
	return cmd
}

// environment is this process's environment without what would change the server: PGDATA, PGPORT, PGOPTIONS and so on.
// LC_ALL=C makes messages English.
func environment() []string {
	var env []string
	for _, pair := range os.Environ() {
		if !strings.HasPrefix(pair, "PG") && !strings.HasPrefix(pair, "LC_") && !strings.HasPrefix(pair, "LANG") {
			env = append(env, pair)
		}
	}
	return append(env, "LC_ALL=C")
}

// create makes the cluster, unless it exists, and returns its password. It starts again when an
// earlier process was killed halfway.
func (c cluster) create(ctx context.Context, o Options) (password string, err error) {
	_, err = os.Stat(c.data())
	if err == nil {
		return c.storedPassword()
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}

	// The cluster gets its name only when it is complete.
	unfinished := c.data() + ".new"
	if err := os.RemoveAll(unfinished); err != nil {
		return "", err
	}
	password = rand.Text()
	if o.Template != nil {
		if password, err = o.Template.copyTo(ctx, unfinished, c.binDir); err != nil {
			return "", err
		}
	}
	if err := os.WriteFile(c.password(), []byte(password+"\n"), 0o600); err != nil {
		return "", err
	}
	if err := c.user.own(c.dir); err != nil {
		return "", err
	}
	if err := c.initialize(ctx, unfinished, o); err != nil {
		return "", err
	}
	return password, os.Rename(unfinished, c.data())
}

// initialize runs initdb. A copy of a template only needs its files on the disk.
func (c cluster) initialize(ctx context.Context, data string, o Options) error {
	args := []string{"--pgdata=" + data}
	switch {
	case o.Template != nil && o.Throwaway:
		return nil
	case o.Template != nil:
		args = append(args, "--sync-only")
	default:
		args = append(args,
			"--username="+superuser, "--pwfile="+c.password(), "--auth=scram-sha-256",
			// Locale C sorts by bytes, so the order is the same on every computer.
			"--encoding=UTF8", "--no-locale", "--no-instructions",
		)
		if o.Throwaway {
			args = append(args, "--no-sync")
		}
	}
	initdb := c.command("initdb", args...)
	var out strings.Builder
	initdb.Stdout, initdb.Stderr = &out, &out
	if err := runTied(ctx, initdb); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, strings.TrimSpace(out.String()))
	}
	return nil
}

func (c cluster) settings(port int, throwaway bool) []string {
	durable, short := "on", []string(nil)
	if throwaway {
		// A process has hundreds of databases, each for seconds: the autovacuum would visit one after the other all the time,
		// and creating and dropping one looks at every buffer.
		durable, short = "off", []string{"-c", "autovacuum=off", "-c", "shared_buffers=16MB"}
	}
	return append([]string{
		"-D", c.data(),
		"-c", "port=" + strconv.Itoa(port),
		"-c", "listen_addresses=127.0.0.1",
		"-c", "unix_socket_directories=", // none: a socket's path has a length limit, and TCP suffices
		"-c", "max_connections=300",
		"-c", "fsync=" + durable,
		"-c", "synchronous_commit=" + durable,
		"-c", "full_page_writes=" + durable,
		"-c", "logging_collector=off",
		"-c", "log_destination=stderr",
		"-c", "timezone=UTC",
		"-c", "log_timezone=UTC",
	}, short...)
}

// postmaster returns the process id in the cluster's lock file when the process is a PostgreSQL server, else 0. It
// removes the lock file of another process: after a crash the id may be reused, and the server would refuse to start.
func (c cluster) postmaster() int {
	path := filepath.Join(c.data(), "postmaster.pid")
	content, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(content), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(first))
	if err == nil && pid > 0 && servesCluster(pid, c.data()) {
		return pid
	}
	_ = os.Remove(path) // if the file stays, the server's own message explains it
	return 0
}
