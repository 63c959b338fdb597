// Package chains runs a node of a blockchain on this computer, for tests and for the local stack:
// anvil for Ethereum, with tokens and price feeds of our own. Nothing here is part of the
// production binary.
package chains

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// ErrNotInstalled means that this computer has no anvil or no solc, and that npm could not install
// them. The text says why.
var ErrNotInstalled = errors.New("the programs of deploy/chains/npm are missing")

// Install installs anvil and solc into deploy/chains/npm unless they are there in the versions of
// its lock file. It returns the directory with the packages. Several processes may call it at once.
// The working directory must be inside the source tree. It returns ErrNotInstalled.
func Install(ctx context.Context) (string, error) {
	source, err := sourceDir()
	if err != nil {
		return "", err
	}

	dir := filepath.Join(source, "npm")
	lock, err := os.Open(filepath.Join(dir, "package.json")) //nolint:gosec // G304: a file of the source tree
	if err != nil {
		return "", err
	}
	defer lock.Close() // it also ends the lock
	if err := flock(ctx, lock); err != nil {
		return "", fmt.Errorf("wait for another process that installs anvil: %w", err)
	}

	modules := filepath.Join(dir, "node_modules")
	if installed(dir) {
		return modules, nil
	}
	npm := exec.CommandContext(ctx, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	npm.Dir = dir
	if out, err := npm.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: npm ci in %s: %w\n%s", ErrNotInstalled, dir, err, out)
	}
	if !installed(dir) {
		return "", fmt.Errorf("%w: there is none for %s/%s", ErrNotInstalled, runtime.GOOS, runtime.GOARCH)
	}
	return modules, nil
}

// anvilPackage is the npm package with the program itself. The package @foundry-rs/anvil is only a
// script that looks for it.
var anvilPackage = "@foundry-rs/anvil-" + runtime.GOOS + "-" + runtime.GOARCH

// installed reports whether both packages are there in the versions of the lock file.
func installed(dir string) bool {
	var lock struct {
		Packages map[string]struct {
			Version string `json:"version"`
		} `json:"packages"`
	}
	if !readJSON(filepath.Join(dir, "package-lock.json"), &lock) {
		return false
	}
	for _, name := range []string{anvilPackage, "solc"} {
		var got struct {
			Version string `json:"version"`
		}
		path := "node_modules/" + name
		want := lock.Packages[path].Version
		if want == "" || !readJSON(filepath.Join(dir, path, "package.json"), &got) || got.Version != want {
			return false
		}
	}
	return true
}

func readJSON(file string, into any) bool {
	content, err := os.ReadFile(file) //nolint:gosec // G304: a file of the source tree
	return err == nil && json.Unmarshal(content, into) == nil
}

// sourceDir returns the directory deploy/chains of the source tree that holds the working directory.
func sourceDir() (string, error) {
	at, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		dir := filepath.Join(at, "deploy", "chains")
		if _, err := os.Stat(filepath.Join(dir, "npm", "package.json")); err == nil {
			return dir, nil
		}
		if at == filepath.Dir(at) {
			return "", errors.New("deploy/chains/npm/package.json not found: run this inside the source tree")
		}
		at = filepath.Dir(at)
	}
}

// flock waits for the lock on file. It asks again and again, because a blocked system call does not
// see ctx end.
func flock(ctx context.Context, file *os.File) error {
	for {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(100 * time.Millisecond):
		}
	}
}
