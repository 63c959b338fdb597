package app

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"

	"example.com/checkout/deploy/config"
	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
)

// accountCommands are what an operator does with merchants, or with their keys.
// They need PostgreSQL and no other part of the service, nor its master keys.
type accountCommands struct {
	name  string
	usage string
	parse map[string]func(args []string) (accountAction, error)
}

// accountAction is a command whose words are right.
type accountAction func(ctx context.Context, c console) error

// console is what an action works with.
type console struct {
	*storage.Accounts
	out   io.Writer // what was asked for, as a script takes it
	notes io.Writer // words around it

	dashboardURL string
}

// runAccounts runs one of the commands. Its errors never quote a word that
// stands where an id belongs: people paste keys there.
func runAccounts(ctx context.Context, commands accountCommands, args, environment []string, out, notes io.Writer) error {
	if len(args) == 0 {
		return fmt.Errorf("checkout %s needs to be told what to do\n\n%s", commands.name, commands.usage)
	}
	help := func() error {
		_, err := io.WriteString(out, commands.usage)
		return err
	}
	switch args[0] {
	case "help", "-h", "-help", "--help":
		return help()
	}
	parse := commands.parse[args[0]]
	if parse == nil {
		return fmt.Errorf("checkout %s has no such command\n\n%s", commands.name, commands.usage)
	}
	act, err := parse(args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return help()
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w; checkout %[1]s -h explains", commands.name, args[0], err)
	}
	stores, err := config.LoadStores(environment)
	if err != nil {
		return fmt.Errorf("configuration:\n%w", err)
	}
	accounts, err := storage.OpenAccounts(ctx, stores.DatabaseURL)
	if err != nil {
		return err
	}
	defer accounts.Close()
	return act(ctx, console{accounts, out, notes, strings.TrimSuffix(stores.DashboardURL, "/")})
}

// parseWords reads flags wherever they stand and returns the other words, of
// which there must be as many as are named.
func parseWords(flags *flag.FlagSet, args []string, named ...string) ([]string, error) {
	flags.SetOutput(io.Discard)
	var words []string
	for {
		if err := flags.Parse(args); err != nil {
			return nil, err
		}
		if flags.NArg() == 0 {
			break
		}
		words, args = append(words, flags.Arg(0)), flags.Args()[1:]
	}
	if len(words) > len(named) {
		return nil, errors.New("too many words; quote what has spaces")
	}
	if len(words) < len(named) {
		return nil, fmt.Errorf("%s is missing", named[len(words)])
	}
	return words, nil
}

// parseID is parseWords for a command that takes one id.
func parseID(flags *flag.FlagSet, args []string, prefix, listed string) (string, error) {
	words, err := parseWords(flags, args, prefix+"_…")
	if err != nil {
		return "", err
	}
	if !checkout.IsID(prefix, words[0]) {
		return "", fmt.Errorf("that is no id: one is %s_ and 26 characters, as %s shows it", prefix, listed)
	}
	return words[0], nil
}

// operator is who does what a command does, in the audit log.
const operator = "operator"

// operatorsEntry is the entry of the audit log for a command; mode is nil for
// what concerns both.
func operatorsEntry(merchantID string, mode *checkout.Mode, what, subject, detail string) checkout.AuditEntry {
	return checkout.AuditEntry{
		ID: checkout.NewID(checkout.PrefixAuditEntry), MerchantID: merchantID, Mode: mode, Actor: operator,
		Action: what, Subject: subject, Detail: detail,
	}
}

const maxWords = 100 // characters of a name or a label

// checkWords says whether text can be the value of a flag that people read
// later.
func checkWords(name, text string) error {
	switch {
	case strings.TrimSpace(text) == "":
		return fmt.Errorf("--%s is missing or empty", name)
	case utf8.RuneCountInString(text) > maxWords:
		return fmt.Errorf("--%s must have at most %d characters", name, maxWords)
	case !utf8.ValidString(text) || strings.ContainsFunc(text, hidden):
		return fmt.Errorf("--%s must not have control or invisible characters", name)
	}
	return nil
}

func hidden(r rune) bool { return !unicode.IsPrint(r) }

func parseMode(text string) (checkout.Mode, error) {
	switch mode := checkout.Mode(text); mode {
	case checkout.ModeTest, checkout.ModeLive:
		return mode, nil
	case "":
		return "", errors.New("--mode is missing: test or live")
	default:
		return "", fmt.Errorf("--mode must be test or live, not %q", text)
	}
}

// findMerchant is Merchant with an error for people.
func (c console) findMerchant(ctx context.Context, id string) (checkout.Merchant, error) {
	m, err := c.Merchant(ctx, id)
	if errors.Is(err, checkout.ErrNotFound) {
		return m, fmt.Errorf("there is no merchant %s", id)
	}
	return m, err
}

// printJSON writes v for a script; an empty list is [].
func (c console) printJSON(v any) error {
	e := json.NewEncoder(c.out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// printTable writes rows in columns; what a terminal would act on is replaced.
func (c console) printTable(rows ...[]string) error {
	w := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		for i, cell := range row {
			if cell == "" {
				row[i] = "-"
			}
			row[i] = strings.Map(func(r rune) rune {
				if hidden(r) {
					return utf8.RuneError
				}
				return r
			}, row[i])
		}
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	return w.Flush()
}

// showTime is for tables; nil is empty.
func showTime(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
