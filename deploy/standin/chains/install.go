// Package chains runs a node of a blockchain on this computer, for tests and for the local stack: anvil for Ethereum,
// with tokens and price feeds of our own. Nothing here is part of the production binary.
package chains

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"example.com/checkout/deploy/standin/build"
	"example.com/checkout/storage/pgtemp"
)

// npmDir has the packages of the node and the compiler.
const npmDir = "deploy/standin/chains/npm"

// ErrNotInstalled means that this computer has no anvil or no solc, and that npm could not install
// them. The text has the reason.
var ErrNotInstalled = errors.New("the programs of deploy/standin/chains/npm are missing")

// Install installs anvil and solc into deploy/standin/chains/npm unless they are there in the versions of
// its lock file. It returns the directory with the packages. Several processes may call it at once.
// The working directory must be inside the source tree. It returns ErrNotInstalled.
func Install(ctx context.Context) (string, error) {
	dir, err := build.Source(npmDir, "package.json")
	if err != nil {
		return "", err
	}
	cache, err := build.Cache("anvil")
	if err != nil {
		return "", err
	}
	lock, err := pgtemp.Lock(ctx, filepath.Join(cache, "lock")) // the source tree may be read-only
	if err != nil {
		return "", fmt.Errorf("wait for another process that installs anvil: %w", err)
	}
	defer lock.Close() // it also ends the lock

	modules := filepath.Join(dir, "node_modules")
	if installed(dir) {
		return modules, nil
	}
	npm := exec.CommandContext(ctx, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	npm.Dir = dir
	if out, err := npm.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: npm ci in %s: %w %s", ErrNotInstalled, dir, err, bytes.TrimSpace(out))
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
