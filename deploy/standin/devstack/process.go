package devstack

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

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
	const enough = 16 << 10
	file, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer file.Close()
	if info, err := file.Stat(); err == nil && info.Size() > enough {
		if _, err := file.Seek(-enough, io.SeekEnd); err != nil {
			return err.Error()
		}
	}
	content, err := io.ReadAll(file)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
