// Package app is the command line of the production binary.
package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

// Run is the production program: it runs the command in args until it is done, or SIGINT or SIGTERM asks it to end, and
// returns the exit status of the process.
func Run(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := Main(ctx, args, os.Environ(), os.Stdout, os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "checkout:", err)
	}
	return ExitStatus(err)
}

// Main runs the command in args until ctx ends or the command is done. It reads settings from environment, a list of
// NAME=value. Log lines, help and a command's output go to out. Explanations for people go to notes, so that a script
// can read out alone. The error names the fault; a wrong call gives a UsageError.
func Main(ctx context.Context, args, environment []string, out, notes io.Writer) error {
	c := &call{out: out, notes: notes, environment: environment}
	root := c.parser()
	root.SetArgs(append([]string{}, args...)) // with nil, cobra would read the arguments of the process

	command, err := root.ExecuteC()
	if err != nil {
		return &UsageError{command.CommandPath(), err}
	}
	if c.run == nil { // cobra has already written help or a completion script
		return nil
	}
	got, err := c.run(c, ctx)
	if failed := c.print(got); err == nil {
		err = failed
	}
	return err
}

// ExitStatus returns the exit status of the process for the error of Main: 0 for nil, 2 for a
// UsageError, 1 for another error.
func ExitStatus(err error) int {
	var usage *UsageError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &usage):
		return 2
	default:
		return 1
	}
}

// UsageError describes a wrong call in one line; the command did nothing. The text never quotes an
// argument in the place of an id, because people paste keys there.
type UsageError struct {
	command string // such as "checkout key create"
	fault   error
}

func (e *UsageError) Error() string {
	about := ""
	if name, ok := strings.CutPrefix(e.command, program+" "); ok {
		about = name + ": "
	}
	fault := strings.ReplaceAll(e.fault.Error(), "\n", "; ")
	return fmt.Sprintf("%s%s; %s --help explains", about, fault, e.command)
}

func (e *UsageError) Unwrap() error { return e.fault }
