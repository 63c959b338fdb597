package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"example.com/checkout/deploy/program/config"
	"example.com/checkout/storage"
	"example.com/checkout/workflows/address"
	"example.com/checkout/workflows/checkout"
)

// console is the environment of a command for operators. It has PostgreSQL, but neither Temporal
// nor the master keys.
type console struct {
	*storage.Accounts
	out   io.Writer // the command's output, fit for a script
	notes io.Writer // explanations for people

	dashboardURL string
	addresses    address.Rules
}

// accountAction is the work of a command for operators.
type accountAction func(ctx context.Context, c console) error

// operator returns the RunE of a command for operators. read checks the command's arguments and
// returns its action.
func (c *call) operator(read func(args []string) (accountAction, error)) func(*cobra.Command, []string) error {
	return func(_ *cobra.Command, args []string) error {
		act, err := read(args)
		if err != nil {
			return err
		}
		c.work = func(ctx context.Context) error { return c.runAccounts(ctx, act) }
		return nil
	}
}

func (c *call) runAccounts(ctx context.Context, act accountAction) error {
	stores, err := config.LoadStores(c.environment)
	if err != nil {
		return configurationError(err)
	}
	accounts, err := storage.OpenAccounts(ctx, storage.Options{URL: stores.DatabaseURL, Pooled: stores.Pooler.Kind != ""})
	if err != nil {
		return err
	}
	defer accounts.Close()
	return act(ctx, console{
		accounts, c.out, c.notes, strings.TrimSuffix(stores.DashboardURL, "/"), stores.PayoutAddressRules(),
	})
}

// addJSON adds the flag --json to a command that prints a list.
func addJSON(command *cobra.Command, asJSON *bool) {
	command.Flags().BoolVar(asJSON, "json", false, "print JSON instead of a table")
}

// actor is the name of the command line in the audit log.
const actor = "operator"

// operatorsEntry returns a command's entry for the audit log; a nil mode means both modes.
func operatorsEntry(merchantID string, mode *checkout.Mode, what, subject, detail string) checkout.AuditEntry {
	return checkout.AuditEntry{
		ID: checkout.NewID(checkout.PrefixAuditEntry), MerchantID: merchantID, Mode: mode, Actor: actor,
		Action: what, Subject: subject, Detail: detail,
	}
}

const maxWords = 100 // characters of a name or a label

// checkWords returns an error if text is not a fit name or label for people to read.
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

// findMerchant is Merchant with an error text for operators.
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

// printTable writes rows in columns. It replaces characters that could control the terminal.
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

// showTime formats a time for a table; nil gives an empty cell.
func showTime(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
