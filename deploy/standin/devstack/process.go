package devstack

import (
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
	name string
	log  string
	cmd  *exec.Cmd
	done chan struct{}
	exit error
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
	exited, err := pgtemp.StartTied(cmd, syscall.SIGKILL)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", p.Name, err)
	}
	process := &Process{name: p.Name, log: p.Log, cmd: cmd, done: make(chan struct{})}
	go func() {
		process.exit = <-exited
		close(process.done)
	}()
	return process, nil
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

// PID returns the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done returns a channel that is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err returns how the process ended, with the last lines of its log. It is nil while the process
// runs.
func (p *Process) Err() error {
	select {
	case <-p.done:
	default:
		return nil
	}
	how := "exit status 0"
	if p.exit != nil {
		how = p.exit.Error()
	}
	return fmt.Errorf("%s ended (%s); the end of %s:\n%s", p.name, how, p.log, lastLines(p.log, 15))
}

// Stop asks the process to end (SIGTERM). After timeout it kills the process and returns an error.
func (p *Process) Stop(timeout time.Duration) error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // an error means that it has already ended
	select {
	case <-p.done:
		return nil
	case <-time.After(timeout):
		p.Kill()
		return fmt.Errorf("%s did not stop within %v and was killed", p.name, timeout)
	}
}

// Kill ends the process with SIGKILL and returns when it has ended.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // an error means that it has already ended
	<-p.done
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
