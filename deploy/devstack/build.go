package devstack

import (
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
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Binaries are the paths of Temporal's programs.
type Binaries struct {
	Server  string
	SQLTool string
	UI      string
}

// tools are the programs that deploy/temporal/go.mod pins.
var tools = []struct{ name, pkg string }{
	{"temporal-server", "go.temporal.io/server/cmd/server"},
	{"temporal-sql-tool", "go.temporal.io/server/cmd/tools/sql"},
	{"temporal-ui", "github.com/temporalio/ui-server/v2/cmd/server"},
}

// BuildTemporal builds the programs pinned in deploy/temporal/go.mod into the user's cache directory and reports its
// progress to out. They are built once for each content of go.mod and go.sum and each version of Go; several processes
// may call it at once. The first build takes some minutes and needs the module proxy, later calls do nothing.
//
// It is called somewhere inside the source tree. Errors: no go command, no source tree, no cache directory, or the
// last lines of the compiler.
func BuildTemporal(ctx context.Context, out io.Writer) (Binaries, error) {
	b, err := buildTemporal(ctx, out)
	if err != nil {
		return Binaries{}, fmt.Errorf("build Temporal: %w", err)
	}
	return b, nil
}

func buildTemporal(ctx context.Context, out io.Writer) (Binaries, error) {
	source, err := temporalSource(ctx)
	if err != nil {
		return Binaries{}, err
	}
	key, err := buildKey(ctx, source)
	if err != nil {
		return Binaries{}, err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return Binaries{}, fmt.Errorf("no cache directory: %w", err)
	}
	dir := filepath.Join(cache, "checkout-devstack", "temporal-"+key)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return Binaries{}, err
	}
	built := Binaries{
		Server:  filepath.Join(dir, tools[0].name),
		SQLTool: filepath.Join(dir, tools[1].name),
		UI:      filepath.Join(dir, tools[2].name),
	}
	if allBuilt(dir) {
		return built, nil
	}

	progress := startProgress(out)
	defer progress.end()
	progress.step("waiting for another process that builds Temporal")
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return Binaries{}, err
	}
	defer lock.Close() // which also gives the lock back
	if err := flock(ctx, lock); err != nil {
		return Binaries{}, err
	}
	for i, tool := range tools {
		path := filepath.Join(dir, tool.name)
		if exists(path) {
			continue
		}
		progress.step(fmt.Sprintf("building %s (%d of %d; once, some minutes)", tool.name, i+1, len(tools)))
		// A name appears only when its program is complete, so a killed build leaves nothing that looks done.
		if err := goBuild(ctx, source, tool.pkg, path+".new"); err != nil {
			return Binaries{}, fmt.Errorf("%s: %w", tool.name, err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			return Binaries{}, err
		}
	}
	return built, nil
}

func allBuilt(dir string) bool {
	for _, tool := range tools {
		if !exists(filepath.Join(dir, tool.name)) {
			return false
		}
	}
	return true
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// flock waits for the lock on file. It asks again and again, because a blocked system call does not see ctx end.
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

// temporalSource returns the directory deploy/temporal of the source tree that holds the working directory.
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

// buildKey names a build: it changes with whatever changes the programs.
func buildKey(ctx context.Context, source string) (string, error) {
	version, err := goCommand(ctx, source, "env", "GOVERSION").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOVERSION: %w", err)
	}
	sum := sha256.New()
	sum.Write(version)
	for _, name := range []string{"go.mod", "go.sum"} {
		content, err := os.ReadFile(filepath.Join(source, name))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(sum, "%s %d\n", name, len(content))
		sum.Write(content)
	}
	return hex.EncodeToString(sum.Sum(nil))[:12], nil
}

func goBuild(ctx context.Context, source, pkg, output string) error {
	cmd := goCommand(ctx, source, "build", "-mod=readonly", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", output, pkg)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		lines := strings.Split(strings.TrimSpace(said.String()), "\n")
		return fmt.Errorf("go build: %w:\n%s", err, strings.Join(lines[max(0, len(lines)-20):], "\n"))
	}
	return nil
}

// goCommand returns the go command with an environment in which the caller's settings for the main module, such as
// -mod=mod, a workspace or a target platform, have no say. Without cgo the build needs no C compiler or headers.
func goCommand(ctx context.Context, dir string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off", "GOOS=", "GOARCH=", "CGO_ENABLED=0")
	return cmd
}
