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

	"example.com/checkout/deploy/config"
	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
)

// console is what a command for operators works with: PostgreSQL alone, neither Temporal nor the
// master keys.
type console struct {
	*storage.Accounts
	out   io.Writer // what was asked for, as a script takes it
	notes io.Writer // words around it

	dashboardURL string
}

// accountAction is what a command for operators does.
type accountAction func(ctx context.Context, c console) error

// operator is the RunE of a command for operators. read checks the command's words and returns
// what they ask for.
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
		return fmt.Errorf("configuration:\n%w", err)
	}
	accounts, err := storage.OpenAccounts(ctx, stores.DatabaseURL)
	if err != nil {
		return err
	}
	defer accounts.Close()
	return act(ctx, console{accounts, c.out, c.notes, strings.TrimSuffix(stores.DashboardURL, "/")})
}

// addJSON gives a command that lists something the flag --json.
func addJSON(command *cobra.Command, asJSON *bool) {
	command.Flags().BoolVar(asJSON, "json", false, "print JSON instead of a table")
}

// actor is who does what a command does, in the audit log.
const actor = "operator"

// operatorsEntry is the entry of the audit log for a command; mode is nil for
// what concerns both.
func operatorsEntry(merchantID string, mode *checkout.Mode, what, subject, detail string) checkout.AuditEntry {
	return checkout.AuditEntry{
		ID: checkout.NewID(checkout.PrefixAuditEntry), MerchantID: merchantID, Mode: mode, Actor: actor,
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
