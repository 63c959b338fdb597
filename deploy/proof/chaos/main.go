// Command chaos checks the guarantees of the service. `chaos check` reads PostgreSQL, Temporal and
// the receivers' log, and lists every disagreement. `chaos run` first starts a stack of its own and
// breaks it in every way.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"example.com/checkout/deploy/standin/devstack"
)

const usage = `usage: go run ./deploy/proof/chaos COMMAND [flags]

  run     break a stack of its own under load, then check it
  check   hold PostgreSQL, Temporal and the receivers' log against each other

-help after a command lists its flags.
`

// Exit statuses besides 0.
const (
	exitViolations = 1 // an invariant is violated
	exitUnknown    = 2 // the check did not work
)

// errViolated is the error of a check that found a violation.
var errViolated = errors.New("invariants are violated")

func main() {
	devstack.RunCommand()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := devstack.DieWithParent(ctx)
	defer cancel()
	// The double of the card network is in this process and logs that PostgreSQL is away, again and again.
	slog.SetDefault(slog.New(slog.DiscardHandler))
	switch err := run(ctx, os.Args[1:]); {
	case err == nil, errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errViolated):
		os.Exit(exitViolations)
	default:
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(exitUnknown)
	}
}

func newFlags(command, usage string, help io.Writer) *flag.FlagSet {
	flags := flag.NewFlagSet(command, flag.ContinueOnError)
	flags.SetOutput(help)
	flags.Usage = func() {
		fmt.Fprint(help, usage)
		flags.PrintDefaults()
	}
	return flags
}

// parse reads flags, without further arguments.
func parse(flags *flag.FlagSet, args []string) error {
	err := flags.Parse(args)
	if err == nil && flags.NArg() > 0 {
		err = fmt.Errorf("unknown argument %q; -help lists the flags", flags.Arg(0))
	}
	return err
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("which command?\n\n%s", usage)
	}
	switch args[0] {
	case "check":
		o, err := parseCheck(args[1:], os.Environ(), os.Stderr)
		if err != nil {
			return err
		}
		return check(ctx, o, os.Stdout, os.Stderr)
	case "run":
		o, err := parseRun(args[1:], os.Stderr)
		if err != nil {
			return err
		}
		return runChaos(ctx, o, os.Stdout, os.Stderr)
	case "help", "-h", "-help", "--help":
		_, err := fmt.Print(usage)
		return err
	}
	return fmt.Errorf("unknown command %q\n\n%s", args[0], usage)
}
