package pgtemp

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// A Template is a cluster that is made once for this user, kept in the user's cache directory and copied for every
// new server. So a server's first start takes a tenth of initdb's time, and its databases are there.
type Template struct {
	Name string                                             // another content needs another name
	Fill func(ctx context.Context, newServer *Server) error // nil leaves the cluster empty
}

// templateAge is when another template may remove one. It is made again when it is needed.
const templateAge = 30 * 24 * time.Hour

// copyTo copies the template's data directory to data and returns its password. It makes the template first when it
// is missing. Its copies share the password and PostgreSQL's system identifier.
func (t Template) copyTo(ctx context.Context, data, binDir string) (password string, err error) {
	template, err := t.cluster(ctx, binDir)
	if err != nil {
		return "", fmt.Errorf("template %s: %w", t.Name, err)
	}
	if err := copyDir(template.data(), data); err != nil {
		return "", fmt.Errorf("copy template %s: %w", t.Name, err)
	}
	return template.storedPassword()
}

// cluster returns the template in the cache. One process makes it, others wait.
func (t Template) cluster(ctx context.Context, binDir string) (cluster, error) {
	c := cluster{binDir: binDir}
	version, err := c.command("postgres", "--version").Output()
	if err != nil {
		return cluster{}, fmt.Errorf("postgres --version: %w", err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return cluster{}, fmt.Errorf("no cache directory: %w", err)
	}
	sum := sha256.Sum256(append(version, t.Name...))
	c.dir = filepath.Join(cache, "checkout-devstack", "cluster-"+hex.EncodeToString(sum[:])[:12])
	if exists(c.data()) {
		return c, nil
	}
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return cluster{}, err
	}
	lock, err := lockDir(ctx, c.dir, startPatience)
	if err != nil {
		return cluster{}, err
	}
	defer lock.Close() // closing also releases the lock
	if exists(c.data()) {
		return c, nil
	}
	removeOldTemplates(filepath.Dir(c.dir))
	return c, t.makeIn(ctx, c)
}

// makeIn makes the template. The server's user may have no access to the user's cache, so the server runs
// in a temporary directory.
func (t Template) makeIn(ctx context.Context, c cluster) error {
	dir, err := os.MkdirTemp("", "pgtemplate-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	server, err := Start(ctx, Options{Dir: dir, BinDir: c.binDir})
	if err != nil {
		return err
	}
	if t.Fill != nil {
		err = t.Fill(ctx, server)
	}
	if stopErr := server.Stop(); err == nil {
		err = stopErr // a killed server's data needs a recovery
	}
	if err != nil {
		return err
	}

	// The data gets its name only when it is complete.
	unfinished := c.data() + ".new"
	if err := os.RemoveAll(unfinished); err != nil {
		return err
	}
	if err := os.WriteFile(c.password(), []byte(server.password+"\n"), 0o600); err != nil {
		return err
	}
	if err := copyDir(server.cluster.data(), unfinished); err != nil {
		return err
	}
	return os.Rename(unfinished, c.data())
}

// copyDir copies a data directory. PostgreSQL wants it closed to others.
func copyDir(from, to string) error {
	if err := os.Mkdir(to, 0o700); err != nil {
		return err
	}
	return os.CopyFS(to, os.DirFS(from))
}

func removeOldTemplates(cache string) {
	dirs, _ := filepath.Glob(filepath.Join(cache, "cluster-*")) // the pattern is valid
	for _, dir := range dirs {
		if info, err := os.Stat(filepath.Join(dir, "data")); err == nil && time.Since(info.ModTime()) > templateAge {
			_ = os.RemoveAll(dir) // another process may do the same
		}
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
