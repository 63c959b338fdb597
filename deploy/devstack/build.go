package devstack

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// BuildTemporal builds the program deploy/temporal, which is Temporal's server, its SQL tool and
// its UI, into the user's cache directory and reports its progress to out. It returns the program's
// path. The program is built once for each content of deploy/temporal and each version of Go;
// several processes may call it at once. The first build takes some minutes and needs the module
// proxy, later calls do nothing.
//
// The working directory must be inside the source tree. Errors: no go command, no source tree, no
// cache directory, or the last lines of the compiler.
func BuildTemporal(ctx context.Context, out io.Writer) (program string, err error) {
	if program, err = buildTemporal(ctx, out); err != nil {
		return "", fmt.Errorf("build Temporal: %w", err)
	}
	return program, nil
}

func buildTemporal(ctx context.Context, out io.Writer) (string, error) {
	source, err := temporalSource(ctx)
	if err != nil {
		return "", err
	}
	key, err := buildKey(ctx, source)
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no cache directory: %w", err)
	}
	dir := filepath.Join(cache, "checkout-devstack", "temporal-"+key)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	program := filepath.Join(dir, "temporal")
	if exists(program) {
		return program, nil
	}

	progress := startProgress(out)
	defer progress.end()
	progress.step("waiting for another process that builds Temporal")
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", err
	}
	defer lock.Close() // closing also releases the lock
	if err := flock(ctx, lock); err != nil {
		return "", err
	}
	if exists(program) {
		return program, nil
	}
	// The name appears only when the program is complete, so a killed build leaves nothing that
	// looks done.
	progress.step("building Temporal")
	tell := func(what string) { progress.say("building Temporal (once, some minutes): " + what) }
	if err := goBuild(ctx, source, program+".new", tell); err != nil {
		return "", err
	}
	return program, os.Rename(program+".new", program)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// flock waits for the lock on file. It asks again and again, because a blocked system call does not
// see ctx end.
func flock(ctx context.Context, file *os.File) error {
	for {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return err
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

// pause waits d, or less when ctx ends, and then returns ctx's error.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// temporalSource returns the directory deploy/temporal of the source tree that holds the working
// directory.
func temporalSource(ctx context.Context) (string, error) {
	output, err := goCommand(ctx, "", "env", "GOMOD").Output()
	if errors.Is(err, exec.ErrNotFound) {
		return "", errors.New("the go command is not on the PATH: install Go (https://go.dev/dl)")
	}
	if err != nil {
		return "", fmt.Errorf("go env GOMOD: %w", err)
	}
	goMod := strings.TrimSpace(string(output))
	if goMod != "" && goMod != os.DevNull {
		for dir := filepath.Dir(goMod); ; dir = filepath.Dir(dir) {
			if source := filepath.Join(dir, "deploy", "temporal"); exists(filepath.Join(source, "go.mod")) {
				return source, nil
			}
			if dir == filepath.Dir(dir) {
				break
			}
		}
	}
	return "", errors.New("deploy/temporal/go.mod not found: run this inside the source tree")
}

// buildKey returns the name of a build. It changes when anything changes that the program depends
// on.
func buildKey(ctx context.Context, source string) (string, error) {
	version, err := goCommand(ctx, source, "env", "GOVERSION").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOVERSION: %w", err)
	}
	sum := sha256.New()
	sum.Write(version)
	for _, name := range []string{"go.mod", "go.sum", "main.go"} {
		content, err := os.ReadFile(filepath.Join(source, name))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(sum, "%s %d\n", name, len(content))
		sum.Write(content)
	}
	return hex.EncodeToString(sum.Sum(nil))[:12], nil
}

// buildFlags are used for the list of packages and for the build, so that both agree on the
// packages already built.
var buildFlags = []string{"-mod=readonly", "-trimpath", "-buildvcs=false", "-ldflags=-s -w"}

// goBuild builds the program in source. It reports the progress: modules fetched, packages done of
// all, linking.
func goBuild(ctx context.Context, source, output string, tell func(string)) error {
	modules := 0
	tell("fetching modules")
	list := goCommand(
		ctx,
		source,
		slices.Concat(
			[]string{"list", "-deps", "-f", "{{if .Stale}}{{.ImportPath}}{{end}}"}, buildFlags,
			[]string{"."},
		)...)
	stale, err := eachLine(list, func(line string) {
		if strings.HasPrefix(line, "go: downloading ") {
			modules++
			tell(fmt.Sprintf("fetching modules, %d so far", modules))
		}
	})
	if err != nil {
		return err
	}

	packages, done := len(strings.Fields(stale)), 0
	tell(fmt.Sprintf("0 of %d packages", packages))
	// With -v the go command names each package, the program's own last.
	build := goCommand(
		ctx,
		source,
		slices.Concat([]string{"build", "-v", "-o", output}, buildFlags, []string{"."})...)
	_, err = eachLine(build, func(line string) {
		if strings.Contains(line, " ") { // a message of the compiler
			return
		}
		if done++; done < packages {
			tell(fmt.Sprintf("%d of %d packages", done, packages))
		} else {
			tell("linking")
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

// goCommand returns the go command with an environment of its own: the caller's settings for the
// main module, such as -mod=mod, a workspace or a target platform, do not apply. Without cgo the
// build needs no C compiler or headers.
func goCommand(ctx context.Context, dir string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off", "GOOS=", "GOARCH=", "CGO_ENABLED=0")
	return cmd
}
