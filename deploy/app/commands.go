package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"example.com/checkout/workflows/checkout"
)

const program = "checkout"

// call is one run of the program. cobra reads the words and leaves the work to be done in work, so
// everything that it returns as an error is about the words.
type call struct {
	environment []string
	out         io.Writer // what was asked for, as a script takes it
	notes       io.Writer // words around it

	work func(ctx context.Context) error // nil: help and the like, which cobra does itself
}

// commands returns the command line with all commands.
func (c *call) commands() *cobra.Command {
	root := &cobra.Command{
		Use:   program,
		Short: "A hosted checkout with webhooks",
		Long: `checkout is the service: its REST API, its hosted page, its dashboard and its worker. It is also
what operators and merchants' developers use at a shell.

Settings come from the environment; README.md, "Configuration", lists them.`,
		Args:          commandOf,
		RunE:          func(root *cobra.Command, _ []string) error { return root.Help() },
		SilenceErrors: true, SilenceUsage: true, DisableFlagsInUseLine: true,
	}
	root.SetOut(c.out)
	root.SetErr(c.notes)
	root.SetFlagErrorFunc(flagError)
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)

	addGroup(root, "Processes:", c.apiCommand(), c.workerCommand(), c.migrateCommand())
	addGroup(root, "For operators:", c.releaseCommand(), c.replayCommand(),
		c.merchantCommand(), c.keyCommand(), c.deliveryCommand())
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

// addGroup adds commands below a heading of root's help.
func addGroup(root *cobra.Command, title string, commands ...*cobra.Command) {
	root.AddGroup(&cobra.Group{ID: title, Title: title})
	for _, command := range commands {
		command.GroupID = title
	}
	root.AddCommand(commands...)
}

// commandOf is the rule for the words after a command that has commands of its own.
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

// plain reports whether word has letters and hyphens only, as commands have and keys have not.
func plain(word string) bool {
	return !strings.ContainsFunc(word, func(r rune) bool { return r != '-' && !unicode.IsLetter(r) })
}

// commandMissing is what a command does that has commands of its own and got none.
func commandMissing(parent *cobra.Command, _ []string) error {
	var names []string
	for _, command := range parent.Commands() {
		names = append(names, command.Name())
	}
	return fmt.Errorf("the command is missing: %s", strings.Join(names, ", "))
}

// helpTopic is the rule for the words after help.
func helpTopic(help *cobra.Command, args []string) error {
	command, rest, err := help.Root().Find(args)
	if err != nil {
		return err
	}
	return commandOf(command, rest)
}

// flagError gives an error of the flags plain words.
func flagError(command *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) || unknown.GetSpecifiedShortnames() == "" {
		return err
	}
	name, _, _ := strings.Cut(unknown.GetSpecifiedShortnames(), "=")
	if command.Flags().Lookup(name) != nil {
		return fmt.Errorf("-%[1]s is written --%[1]s", name)
	}
	return errors.New("unknown flag; names of flags begin with --")
}

// words is the rule for a command that takes as many words as are named.
func words(names ...string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		switch {
		case len(args) > len(names):
			return errors.New("too many words; quote what has spaces")
		case len(args) < len(names):
			return fmt.Errorf("%s is missing", names[len(args)])
		}
		return nil
	}
}

// idAnd is the rule for a command that takes an id, which listed shows, and as many words more as
// are named.
func idAnd(prefix, listed string, names ...string) cobra.PositionalArgs {
	return cobra.MatchAll(words(append([]string{prefix + "_…"}, names...)...), func(_ *cobra.Command, args []string) error {
		if !checkout.IsID(prefix, args[0]) {
			return fmt.Errorf("that is no id: one is %s_ and 26 characters, as %s shows it", prefix, listed)
		}
		return nil
	})
}

// offer makes the shell complete the value of a flag with one of values.
func offer(command *cobra.Command, flag string, values ...string) {
	complete := cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
	if err := command.RegisterFlagCompletionFunc(flag, complete); err != nil {
		panic(err) // the command has no such flag, or offers its values twice
	}
}

// names are the words of a list of constants.
func names[T ~string](list []T) []string {
	all := make([]string, 0, len(list))
	for _, one := range list {
		all = append(all, string(one))
	}
	return all
}
