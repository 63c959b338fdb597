package app

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"example.com/checkout/deploy/program/telemetry"
	"example.com/checkout/workflows/checkout"
)

const program = "checkout"

// A command is an entry of the table of commands.
type command struct {
	use                  string // the name, and the words and flags that must follow it
	short, long, example string
	children             []command // the commands below its name; then it has none of the fields that follow
	args                 cobra.PositionalArgs
	flags                func(*pflag.FlagSet)
	exclusive            []string            // flags of which a call has one at most, separated by spaces
	values               map[string][]string // what the shell proposes for each flag, and under "" for an argument
	asJSON               bool                // it has the flag --json
	check                func(*call) error   // finds what is wrong with a call, before any setting is read
	run                  work
}

// work is what a command does. Its result is printed also beside an error.
type work func(*call, context.Context) (result, error)

// commands is the table of commands, below the headings of the help.
var commands = []struct {
	heading  string
	commands []command
}{
	{"Processes:", []command{apiCommand, workerCommand, setupCommand, healthCommand}},
	{"For operators:", []command{
		releaseCommand, replayCommand, merchantCommand, keyCommand, deliveryCommand, payoutCommand, refundCommand,
		treasuryCommand, findingCommand, reportCommand, customerCommand, masterKeyCommand, resealCommand,
	}},
	{"For developers:", []command{listenCommand}},
}

// parser returns cobra's form of the table. cobra only parses the arguments: it stores the command in c. So every error
// that cobra returns is about the arguments.
func (c *call) parser() *cobra.Command {
	root := &cobra.Command{
		Use:   program,
		Short: "A hosted checkout with webhooks",
		Long: `checkout runs the service: the REST API, the hosted page, the dashboard and the worker. It is also
the command line for operators and merchants' developers.

Settings come from the environment; settings.md of the release lists them.`,
		Version:       telemetry.Version(), // --version
		Args:          commandOf,
		RunE:          func(root *cobra.Command, _ []string) error { return root.Help() },
		SilenceErrors: true, SilenceUsage: true, DisableFlagsInUseLine: true,
	}
	root.SetOut(c.out)
	root.SetErr(c.notes)
	root.SetFlagErrorFunc(flagError)
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	for _, group := range commands {
		root.AddGroup(&cobra.Group{ID: group.heading, Title: group.heading})
		for _, entry := range group.commands {
			parsed := entry.parser(c)
			parsed.GroupID = group.heading
			root.AddCommand(parsed)
		}
	}
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, command := range root.Commands() {
		switch {
		case command.Name() == "help":
			command.Args = helpTopic
		case command.HasSubCommands():
			command.Args, command.RunE = commandOf, commandMissing
			command.DisableFlagsInUseLine = true
		}
	}
	return root
}

// parser returns cobra's form of an entry.
func (e command) parser(c *call) *cobra.Command {
	parsed := &cobra.Command{
		Use: e.use, Short: e.short, Long: e.long, Example: e.example, Args: e.args, ValidArgs: e.values[""],
		DisableFlagsInUseLine: strings.Contains(e.use, "{"),
		RunE: func(parsed *cobra.Command, args []string) error {
			c.name, c.args, c.flags = parsed.Name(), args, parsed.Flags()
			if e.check != nil {
				if err := e.check(c); err != nil {
					return err
				}
			}
			c.run = e.run
			return nil
		},
	}
	for _, child := range e.children {
		parsed.AddCommand(child.parser(c))
	}
	if e.flags != nil {
		e.flags(parsed.Flags())
	}
	if e.asJSON {
		parsed.Flags().Bool("json", false, "print JSON instead of a table")
	}
	for _, flags := range e.exclusive {
		parsed.MarkFlagsMutuallyExclusive(strings.Fields(flags)...)
	}
	for flag, values := range e.values {
		complete := cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
		if err := parsed.RegisterFlagCompletionFunc(flag, complete); err != nil && flag != "" {
			panic(err) // the command has no such flag
		}
	}
	return parsed
}

// commandOf checks the arguments of a command that has sub-commands.
func commandOf(parent *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	said := "there is no such command"
	if plain(args[0]) {
		said = fmt.Sprintf("there is no command %q", args[0])
	}
	parent.SuggestionsMinimumDistance = 2
	if near := parent.SuggestionsFor(args[0]); len(near) > 0 {
		said += " (did you mean " + strings.Join(near, " or ") + "?)"
	}
	return errors.New(said)
}

// plain reports whether word has only letters and hyphens. Commands do, keys do not.
func plain(word string) bool {
	return !strings.ContainsFunc(word, func(r rune) bool { return r != '-' && !unicode.IsLetter(r) })
}

// commandMissing returns the error of a command that was called without its sub-command.
func commandMissing(parent *cobra.Command, _ []string) error {
	names := each(parent.Commands(), (*cobra.Command).Name)
	return fmt.Errorf("the command is missing: %s", strings.Join(names, ", "))
}

// helpTopic checks the arguments of help.
func helpTopic(help *cobra.Command, args []string) error {
	command, rest, err := help.Root().Find(args)
	if err != nil {
		return err
	}
	return commandOf(command, rest)
}

// flagError rewrites pflag's errors in plain words.
func flagError(command *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) || unknown.GetSpecifiedShortnames() == "" {
		return err
	}
	name, _, _ := strings.Cut(unknown.GetSpecifiedShortnames(), "=")
	if command.Flags().Lookup(name) != nil {
		return fmt.Errorf("use --%[1]s instead of -%[1]s", name)
	}
	return errors.New("unknown flag; names of flags begin with --")
}

// words returns a check for a command that takes one argument for each name.
func words(names ...string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		switch {
		case len(args) > len(names):
			return errors.New("too many arguments; quote values with spaces")
		case len(args) < len(names):
			return fmt.Errorf("%s is missing", names[len(args)])
		}
		return nil
	}
}

// idAnd returns a check for a command that takes an id and one more argument for each name. The
// command listed shows the ids; the error text names it.
func idAnd(prefix, listed string, names ...string) cobra.PositionalArgs {
	return cobra.MatchAll(
		words(append([]string{prefix + "_…"}, names...)...),
		func(_ *cobra.Command, args []string) error { return checkID(prefix, listed, args[0]) },
	)
}

func checkID(prefix, listed, id string) error {
	if !checkout.IsID(prefix, id) {
		return fmt.Errorf("not a valid id: expected %s_ and 26 characters, as shown by %s", prefix, listed)
	}
	return nil
}

// names converts a list of constants to strings.
func names[T ~string](list []T) []string {
	return each(list, func(one T) string { return string(one) })
}

// each converts a list.
func each[From, To any](all []From, convert func(From) To) []To {
	converted := make([]To, 0, len(all))
	for _, one := range all {
		converted = append(converted, convert(one))
	}
	return converted
}
