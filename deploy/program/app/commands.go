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

// call is one run of the program. cobra only parses the arguments and stores the command's action
// in work. So every error that cobra returns is about the arguments.
type call struct {
	printer

	environment []string
	work        func(ctx context.Context) error // nil for help and completion, which cobra prints itself
}

// commands returns the command line with all commands.
func (c *call) commands() *cobra.Command {
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

	addGroup(root, "Processes:", c.apiCommand(), c.workerCommand(), c.setupCommand(), c.healthCommand())
	addGroup(root, "For operators:", c.releaseCommand(), c.replayCommand(),
		c.merchantCommand(), c.keyCommand(), c.deliveryCommand(), c.payoutCommand(), c.refundCommand(), c.treasuryCommand(),
		c.findingCommand(), c.reportCommand(), c.customerCommand(), c.masterKeyCommand(), c.resealCommand())
	addGroup(root, "For developers:", c.listenCommand())

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

// parentOf returns command with its sub-commands.
func parentOf(command *cobra.Command, children ...*cobra.Command) *cobra.Command {
	command.AddCommand(children...)
	return command
}

// addGroup adds commands to root's help, below a heading.
func addGroup(root *cobra.Command, title string, commands ...*cobra.Command) {
	root.AddGroup(&cobra.Group{ID: title, Title: title})
	for _, command := range commands {
		command.GroupID = title
	}
	root.AddCommand(commands...)
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
		func(_ *cobra.Command, args []string) error {
			if !checkout.IsID(prefix, args[0]) {
				return fmt.Errorf("not a valid id: expected %s_ and 26 characters, as shown by %s", prefix, listed)
			}
			return nil
		},
	)
}

// completes makes the shell propose values for a flag.
func completes(command *cobra.Command, flag string, values ...string) {
	complete := cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
	if err := command.RegisterFlagCompletionFunc(flag, complete); err != nil {
		panic(err) // the command has no such flag, or offers its values twice
	}
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
