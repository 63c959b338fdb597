// Package build makes the programs that tests and the local stack need beside the service: programs of
// modules of their own, built once into the user's cache.
package build

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"example.com/checkout/storage/pgtemp"
	"example.com/checkout/workflows/checkout"
)

// Program is a program of a module in this source tree.
type Program struct {
	Name    string   // of the program and of its directory in the cache
	Title   string   // for people
	Takes   string   // how long a build takes, for people
	Module  string   // the module's directory, such as "deploy/standin/temporal"
	Package string   // import path, or "." for the module's own
	Files   []string // the files of the module on which the program depends, besides the stubs of Without
	Without Without  // what the build leaves out
	Linker  string   // more flags for the linker
}

// Build builds the program unless it is there, and returns its path. It reports its progress to out. A program is built
// once for each content of its files and each version of Go; several processes may call Build at once. The working
// directory must be inside the source tree.
//
// Errors: no go command, no source tree, no cache directory, or the last lines of the compiler.
func (p Program) Build(ctx context.Context, out io.Writer) (program string, err error) {
	defer checkout.Wrap(&err, "build %s", p.Title)
	source, err := Source(p.Module, "go.mod")
	if err != nil {
		return "", err
	}
	key, err := p.key(ctx, source)
	if err != nil {
		return "", err
	}
	dir, err := Cache(p.Name + "-" + key)
	if err != nil {
		return "", err
	}
	program = filepath.Join(dir, p.Name)
	if Exists(program) {
		return program, nil
	}

	report := func(what string) { // a lost line of progress does no harm
		_, _ = fmt.Fprintf(out, "building %s (once, %s): %s\n", p.Title, p.Takes, what)
	}
	report("as soon as no other process builds it")
	lock, err := pgtemp.Lock(ctx, filepath.Join(dir, "lock"))
	if err != nil {
		return "", err
	}
	defer lock.Close() // closing also releases the lock
	if Exists(program) {
		return program, nil
	}
	// The name appears only when the program is complete, so a killed build leaves nothing that looks done.
	without, err := p.Without.flags(ctx, source, dir, filepath.Dir(dir))
	if err != nil {
		return "", err
	}
	flags := append([]string{"-ldflags=-s -w " + p.Linker}, without...)
	if err := goBuild(ctx, source, p.Package, flags, program+".new", report); err != nil {
		return "", err
	}
	return program, os.Rename(program+".new", program)
}

// Cache returns a directory for programs in the user's cache, which it makes.
func Cache(name string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no cache directory: %w", err)
	}
	dir := filepath.Join(cache, "checkout-devstack", name)
	return dir, os.MkdirAll(dir, 0o755)
}

// key returns the name of a build. It changes when anything changes that the program depends on.
func (p Program) key(ctx context.Context, source string) (string, error) {
	version, err := goCommand(ctx, source, "env", "GOVERSION").Output()
	if errors.Is(err, exec.ErrNotFound) {
		return "", errors.New("the go command is not on the PATH: install Go (https://go.dev/dl)")
	}
	if err != nil {
		return "", fmt.Errorf("go env GOVERSION: %w", err)
	}
	sum := sha256.New()
	sum.Write(version)
	fmt.Fprintf(sum, "%v %s\n", p.Without, p.Linker) // a map is printed in the order of its keys
	stubs := slices.Sorted(maps.Values(p.Without.Stubs))
	for _, name := range slices.Concat(p.Files, stubs) {
		content, err := os.ReadFile(filepath.Join(source, name))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(sum, "%s %d\n", name, len(content))
		sum.Write(content)
	}
	return hex.EncodeToString(sum.Sum(nil))[:12], nil
}

// Source returns a directory of the source tree that holds the working directory. dir is relative to
// the root of the tree, and file is a file that is in it.
func Source(dir, file string) (string, error) {
	at, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		source := filepath.Join(at, filepath.FromSlash(dir))
		if Exists(filepath.Join(source, file)) {
			return source, nil
		}
		if at == filepath.Dir(at) {
			return "", fmt.Errorf("%s/%s not found: run this inside the source tree", dir, file)
		}
		at = filepath.Dir(at)
	}
}

// Exists reports whether there is something at path.
func Exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// goBuild builds a package of the module in source with some more flags. It reports the progress: modules fetched,
// packages done of all in at most twenty steps, linking.
func goBuild(ctx context.Context, source, pkg string, flags []string, output string, report func(string)) error {
	// The list of packages and the build need the same flags, so that both agree on the packages already built.
	flags = append([]string{"-mod=readonly", "-buildvcs=false"}, flags...)
	modules := 0
	report("fetching modules")
	const stales = "{{if .Stale}}{{.ImportPath}}{{end}}"
	list := goCommand(ctx, source, slices.Concat([]string{"list", "-deps", "-f", stales}, flags, []string{pkg})...)
	stale, err := eachLine(list, func(line string) {
		if strings.HasPrefix(line, "go: downloading ") {
			if modules++; modules%20 == 0 {
				report(fmt.Sprintf("fetching modules, %d so far", modules))
			}
		}
	})
	if err != nil {
		return err
	}

	packages, done := len(strings.Fields(stale)), 0
	report(fmt.Sprintf("0 of %d packages", packages))
	// With -v the go command names each package, the program's own last.
	build := goCommand(ctx, source, slices.Concat([]string{"build", "-v", "-o", output}, flags, []string{pkg})...)
	_, err = eachLine(build, func(line string) {
		if strings.Contains(line, " ") { // a message of the compiler
			return
		}
		switch done++; {
		case done >= packages:
			report("linking")
		case done*20/packages > (done-1)*20/packages:
			report(fmt.Sprintf("%d of %d packages", done, packages))
		}
	})
	return err
}

// eachLine runs a go command, passes each line of its standard error on at once, and returns its
// standard output. The error ends with the last lines of standard error.
func eachLine(cmd *exec.Cmd, line func(string)) (string, error) {
	var said bytes.Buffer
	cmd.Stdout = &said
	words, err := cmd.StderrPipe()
	if err != nil {
		return "", err
	}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	var last []string
	for lines := bufio.NewScanner(words); lines.Scan(); {
		line(lines.Text())
		last = append(last, lines.Text())
		last = last[max(0, len(last)-20):]
	}
	if err := cmd.Wait(); err != nil {
		return "", fmt.Errorf("go %s: %w:\n%s", cmd.Args[1], err, strings.Join(last, "\n"))
	}
	return said.String(), nil
}

// goCommand returns the go command without the caller's settings for the main module, such as -mod=mod, a workspace
// or a target platform. The packages that both modules need are compiled once, as long as flags and environment are
// those of "go run": so no -trimpath and no CGO_ENABLED. GOGC takes a fifth off the compiler's time for a big package.
func goCommand(ctx context.Context, dir string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off", "GOOS=", "GOARCH=", "GOGC=400")
	return cmd
}
