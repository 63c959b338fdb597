// Package app is the command line of the production binary.
package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Main runs the command that args name until ctx ends or the command is done. It reads settings
// from environment, a list of NAME=value. out takes log lines, help and what a command prints;
// notes takes the words around that, so that a script can read out alone. The error names what is
// wrong; it is a UsageError when the words of args are.
func Main(ctx context.Context, args, environment []string, out, notes io.Writer) error {
	c := &call{environment: environment, out: out, notes: notes}
	root := c.commands()
	root.SetArgs(append([]string{}, args...)) // not nil, for which cobra takes those of the process

	command, err := root.ExecuteC()
	if err != nil {
		return &UsageError{command.CommandPath(), err}
	}
	if c.work == nil { // help or a completion script, which cobra has written
		return nil
	}
	return c.work(ctx)
}

// ExitStatus returns with what the process ends after Main returned err: 0 for nil, 2 for a
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

// UsageError says in one line what is wrong with the words of a call, which then did nothing. It
// quotes no word that stands where an id belongs: people paste keys there.
type UsageError struct {
	command string // such as "checkout key create"
	fault   error
}

// Error implements error.
func (e *UsageError) Error() string {
	about := ""
	if name, ok := strings.CutPrefix(e.command, program+" "); ok {
		about = name + ": "
	}
	fault := strings.ReplaceAll(e.fault.Error(), "\n", "; ")
	return fmt.Sprintf("%s%s; %s --help explains", about, fault, e.command)
}

func (e *UsageError) Unwrap() error { return e.fault }
