package pgtemp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// A start after a crash first replays the log, which takes long on a slow disk.
	startPatience = 90 * time.Second
	// How long the former server, or its last backends, may take to end.
	formerPatience = 15 * time.Second
	// How long a fast shutdown may take.
	stopPatience = 10 * time.Second
)

// ErrPortTaken is the error of [Start] when another program listens on Options.Port, and of [CheckFree]. It is wrapped.
var ErrPortTaken = errors.New("port is taken")

// Options describe the server. The zero value with a Dir is a durable server on a free port.
type Options struct {
	Dir       string    // the server's directory, created when missing; empty only with Throwaway
	Port      int       // on 127.0.0.1; 0 means a free port
	BinDir    string    // directory of postgres and initdb; empty asks FindBinaries
	Throwaway bool      // fast and not crash-safe; Stop removes the directory
	Template  *Template // what a new cluster begins with; nil: an empty cluster of initdb
}

// A Server is a running PostgreSQL. Its methods may be called from several goroutines.
type Server struct {
	cluster   cluster
	port      int
	password  string
	throwaway bool
	lock      *os.File
	process   *Process // the postmaster
	release   sync.Once
}

// Start starts a server and returns when it accepts connections. ctx limits the start only, not the server's life.
//
// Start recovers a directory after a crash of the server or of the computer. It waits for a former
// server or backend that is still ending. Errors: [ErrNoBinaries], [ErrPortTaken], a directory that
// another process uses, or the server's last log lines.
func Start(ctx context.Context, o Options) (*Server, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, startPatience,
		fmt.Errorf("PostgreSQL did not accept connections within %v", startPatience))
	defer cancel()

	s, err := prepare(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("start PostgreSQL: %w", err)
	}
	if err := s.start(ctx, o); err != nil {
		s.free()
		return nil, fmt.Errorf("start PostgreSQL: %w", err)
	}
	return s, nil
}

// prepare takes the directory and ensures that it has a cluster without a running server.
func prepare(ctx context.Context, o Options) (_ *Server, err error) {
	if o.Dir == "" && !o.Throwaway {
		return nil, errors.New("Options.Dir is empty")
	}
	if o.BinDir == "" {
		if o.BinDir, err = FindBinaries(); err != nil {
			return nil, err
		}
	}

	user, err := userFor(o.Dir, o.BinDir)
	if err != nil {
		return nil, err
	}
	if o.Dir == "" {
		o.Dir, err = newThrowawayDir(user)
	} else if o.Dir, err = filepath.Abs(o.Dir); err == nil {
		err = os.MkdirAll(o.Dir, 0o700)
	}
	if err != nil {
		return nil, err
	}
	lock, err := lockDir(ctx, o.Dir, 3*time.Second)
	if err != nil {
		return nil, err
	}
	s := &Server{cluster: cluster{dir: o.Dir, binDir: o.BinDir, user: user}, throwaway: o.Throwaway, lock: lock}
	if s.password, err = s.cluster.create(ctx, o); err == nil {
		err = s.cluster.awaitFormer(ctx)
	}
	if err != nil {
		s.free()
		return nil, err
	}
	return s, nil
}

// awaitFormer waits until the former server on this cluster has ended. The caller holds the directory, so the former
// server has lost its parent: it is ending already, or awaitFormer ends it.
func (c cluster) awaitFormer(ctx context.Context) error {
	began := time.Now()
	for told := false; ; {
		pid := c.postmaster()
		switch {
		case pid == 0:
			return nil
		case time.Since(began) > formerPatience:
			return fmt.Errorf("another PostgreSQL (process %d) serves %s and does not end", pid, c.dir)
		case !told && time.Since(began) > 2*time.Second:
			told = true
			// SIGINT asks a postmaster for a fast, clean shutdown. The process may be gone by now.
			_ = syscall.Kill(pid, syscall.SIGINT)
		}
		if err := Pause(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

// portPatience is how long a former server, or a process that has just been forked, may still hold the port.
const portPatience = 2 * time.Second

// start runs the server. It tries again while a passing obstacle stands in the way.
func (s *Server) start(ctx context.Context, o Options) error {
	for began := time.Now(); ; {
		s.port = o.Port
		if o.Port == 0 {
			ports, err := FreePorts(1)
			if err != nil {
				return err
			}
			s.port = ports[0]
		}
		err := s.startOnce(ctx)
		if err == nil {
			return nil
		}
		portLeft := errors.Is(err, ErrPortTaken) && time.Since(began) < portPatience
		backendsLeft := strings.Contains(err.Error(), "pre-existing shared memory block") &&
			time.Since(began) < formerPatience
		if !portLeft && !backendsLeft {
			return err
		}
		if err := Pause(ctx, 200*time.Millisecond); err != nil {
			return err
		}
	}
}

func (s *Server) startOnce(ctx context.Context) error {
	if err := CheckFree(s.port); err != nil { // the server would only write it to its log
		return err
	}
	file, err := os.OpenFile(s.cluster.log(), os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	before, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	cmd := s.cluster.command("postgres", s.cluster.settings(s.port, s.throwaway)...)
	cmd.Stdout, cmd.Stderr = file, file

	// SIGQUIT makes the server end all its backends at once. SIGKILL would leave busy backends behind.
	if s.process, err = StartTied(cmd, syscall.SIGQUIT); err != nil {
		return err
	}
	if err := s.awaitReady(ctx); err != nil {
		_ = s.process.End(syscall.SIGQUIT, stopPatience) // it was killed if it did not end
		said := make([]byte, 4096)
		n, _ := file.ReadAt(said, before) // io.EOF is the normal case
		text := strings.TrimSpace(string(said[:n]))
		if strings.Contains(text, "could not bind") {
			return fmt.Errorf("127.0.0.1:%d: %w", s.port, ErrPortTaken)
		}
		return fmt.Errorf("%w: %s", err, text)
	}
	return nil
}

// awaitReady waits until the server answers a query.
func (s *Server) awaitReady(ctx context.Context) error {
	var refused error
	err := s.process.Ready(ctx, func(ctx context.Context) error {
		err := s.query(ctx, func(*pgx.Conn) error { return nil })
		if code := sqlState(err); code == "28P01" || code == "28000" { // the wrong password: to wait does not help
			refused = err
			return nil
		}
		return err
	})
	if refused != nil {
		return fmt.Errorf("the server on port %d does not know the password in %s: %w", s.port, s.cluster.password(), refused)
	}
	return err
}

// URL returns the superuser's postgres:// URL of a database. It contains the password: keep it out of logs.
func (s *Server) URL(database string) string {
	u := url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword(superuser, s.password),
		Host:     net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)),
		Path:     "/" + database,
		RawQuery: "sslmode=disable",
	}
	return u.String()
}

// Port returns the port on 127.0.0.1.
func (s *Server) Port() int { return s.port }

// PID returns the process id of the postmaster.
func (s *Server) PID() int { return s.process.PID() }

// RunAsServer makes cmd run as the server's user, which is never root. Use it before cmd starts.
func (s *Server) RunAsServer(cmd *exec.Cmd) { s.cluster.user.apply(cmd) }

// Done returns a channel that is closed when the postmaster has ended, for any reason.
func (s *Server) Done() <-chan struct{} { return s.process.Done() }

// Stop shuts the server down fast: it rolls back open transactions and closes connections. After 10 s it kills the
// server. Afterwards [Start] works on the same directory and port. A second Stop does nothing.
func (s *Server) Stop() error {
	signal := syscall.SIGINT
	if s.throwaway {
		signal = syscall.SIGQUIT // no checkpoint: the data is not needed
	}
	err := s.process.End(signal, stopPatience)
	s.free()
	if err != nil {
		return fmt.Errorf("PostgreSQL %w", err)
	}
	return nil
}

// Kill ends the postmaster with SIGKILL, as a crash would, and waits for its end. Its backends end
// by themselves; [Start] on the same directory waits for them and recovers the data.
func (s *Server) Kill() {
	s.process.Kill()
	s.free()
}

// free releases the directory, and removes it when the server is a throwaway one.
func (s *Server) free() {
	s.release.Do(func() {
		if s.throwaway {
			_ = os.RemoveAll(s.cluster.dir) // the next throwaway server removes what stays
		}
		_ = s.lock.Close()
	})
}

// runTied runs cmd to its end. cmd ends when this process ends, or ctx.
func runTied(ctx context.Context, cmd *exec.Cmd) error {
	process, err := StartTied(cmd, syscall.SIGKILL)
	if err != nil {
		return err
	}
	select {
	case <-process.Done():
		return process.Wait()
	case <-ctx.Done():
		process.Kill()
		return context.Cause(ctx)
	}
}
