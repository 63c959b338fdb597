package devstack

import (
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/procfs"

	"example.com/checkout/deploy/program/app"
	"example.com/checkout/storage/pgtemp"
)

// A Program describes a program to run.
type Program struct {
	Name string          // for messages: "temporal"
	Path string          // of the executable
	Args []string        // without the program's name
	Dir  string          // working directory
	Env  []string        // NAME=value, in addition to this process's
	Log  string          // file to which its output is appended
	As   func(*exec.Cmd) // chooses another user, if it is not nil
}

// A Process is a running Program. Its methods may be called from several goroutines.
type Process struct {
	*pgtemp.Process
	name, log string
}

// Start runs the program. It dies with this process (see [pgtemp.StartTied]).
func (p Program) Start() (*Process, error) {
	log, err := openLog(p.Log)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", p.Name, err)
	}
	defer log.Close()
	cmd := exec.Command(p.Path, p.Args...)
	cmd.Dir = p.Dir
	cmd.Env = append(os.Environ(), p.Env...)
	cmd.Stdout, cmd.Stderr = log, log
	if p.As != nil {
		p.As(cmd)
	}
	process, err := pgtemp.StartTied(cmd, syscall.SIGKILL)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", p.Name, err)
	}
	return &Process{process, p.Name, p.Log}, nil
}

// openLog opens a log file for appending. It renames a long log first, so that after months a stack
// has two files of bounded size.
func openLog(path string) (*os.File, error) {
	const long = 16 << 20
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	if info, err := os.Stat(path); err == nil && info.Size() > long {
		if err := os.Rename(path, path+".old"); err != nil {
			return nil, err
		}
	}
	return os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
}

// Err returns how the process ended, with the last lines of its log. It is nil while the process runs.
func (p *Process) Err() error {
	select {
	case <-p.Done():
	default:
		return nil
	}
	how := "exit status 0"
	if err := p.Wait(); err != nil {
		how = err.Error()
	}
	return fmt.Errorf("%s ended (%s); the end of %s:\n%s", p.name, how, p.log, lastLines(p.log, 15))
}

// Ready repeats look until it returns nil. When the process ends first, it returns Err.
func (p *Process) Ready(ctx context.Context, look func(context.Context) error) error {
	err := p.Process.Ready(ctx, look)
	if ended := p.Err(); ended != nil {
		return ended
	}
	return err
}

// Stop asks the process to end (SIGTERM). After timeout it kills the process and returns an error. A nil process has
// ended.
func (p *Process) Stop(timeout time.Duration) error {
	if p == nil {
		return nil
	}
	if err := p.End(syscall.SIGTERM, timeout); err != nil {
		return fmt.Errorf("%s %w", p.name, err)
	}
	return nil
}

// lastLines returns at most n lines from the end of a file, or a note if the file cannot be read.
func lastLines(path string, n int) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// ResidentMemory returns the resident memory of a process in MB; NaN where the system does not show it.
func ResidentMemory(pid int) float64 {
	process, err := procfs.NewProc(pid)
	if err != nil {
		return math.NaN()
	}
	status, err := process.NewStatus()
	if err != nil || status.VmRSS == 0 { // it has ended, and its parent does not know yet
		return math.NaN()
	}
	return float64(status.VmRSS) / (1 << 20)
}

// DieWithParent returns a context that ends when ctx ends or when the `go run` that started this process has ended. If
// this process was started in another way, the context is ctx with a cancel function.
//
// `go run` passes neither SIGKILL nor SIGTERM on, so its program would live on and hold the ports. The kernel's
// PR_SET_PDEATHSIG does not help: it fires when the parent's *thread* that forked this process ends, which in a Go
// program may be long before the parent itself. So DieWithParent looks once a second.
func DieWithParent(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	parent := os.Getppid()
	if !isGoCommand(parent) {
		return ctx, cancel
	}
	go func() {
		for os.Getppid() == parent && pgtemp.Pause(ctx, time.Second) == nil {
		}
		cancel()
	}()
	return ctx, cancel
}

// isGoCommand reports whether process pid is the go command.
func isGoCommand(pid int) bool {
	comm, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm")
	return err == nil && string(comm) == "go\n"
}

// CommandVariable names an environment variable. If it is set, a program that calls RunCommand runs
// that command of the production binary instead of its own work. So a stack needs no second build.
const CommandVariable = "CHECKOUT_DEVSTACK_COMMAND"

// RunCommand must be the first call of a program that starts a Stack. If a stack started this process as its API or
// worker, RunCommand runs that command and ends the process. Otherwise it returns at once.
func RunCommand() {
	command := os.Getenv(CommandVariable)
	if command == "" {
		return
	}
	_ = os.Unsetenv(CommandVariable) // not a setting of the command; it fails only for a malformed name
	_ = os.Unsetenv(PostgresRepository)
	os.Exit(app.Run(strings.Fields(command)))
}
