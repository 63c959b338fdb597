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
	"unicode/utf8"

	"github.com/spf13/cobra"

	"example.com/checkout/api/action"
	"example.com/checkout/deploy/program/config"
	"example.com/checkout/storage"
	"example.com/checkout/workflows/address"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
)

// console is the environment of a command for operators. It has PostgreSQL, but neither Temporal
// nor the master keys.
type console struct {
	*storage.Accounts
	printer

	dashboardURL string
	addresses    address.Rules
}

// operator returns the RunE of a command for operators. What can be wrong with a call is checked before, in Args and
// PreRunE.
func (c *call) operator(
	act func(ctx context.Context, c console, args []string) error,
) func(*cobra.Command, []string) error {
	return func(_ *cobra.Command, args []string) error {
		c.work = func(ctx context.Context) error {
			stores, err := config.LoadStores(c.environment)
			if err != nil {
				return configurationError(err)
			}
			options := storage.Options{URL: stores.DatabaseURL, Pooled: stores.Pooler.Kind != ""}
			accounts, err := storage.OpenAccounts(ctx, options)
			if err != nil {
				return err
			}
			defer accounts.Close()
			return act(ctx, console{accounts, c.printer, stores.DashboardURL, stores.PayoutAddressRules()}, args)
		}
		return nil
	}
}

// checkWords returns an error if text is not a fit name or label for people to read.
func checkWords(name, text string) error {
	if err := action.CheckLabel(text); err != nil {
		return fmt.Errorf("--%s %w", name, err)
	}
	return nil
}

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

// checksMode returns the PreRunE of a command with the flag --mode.
func checksMode(mode *string) func(*cobra.Command, []string) error {
	return func(*cobra.Command, []string) error {
		_, err := parseMode(*mode)
		return err
	}
}

// findMerchant is Merchant with an error text for operators.
func (c console) findMerchant(ctx context.Context, id string) (merchant.Merchant, error) {
	m, err := c.Merchants.Merchant(ctx, id)
	return m, noMerchant(err, id)
}

func noMerchant(err error, id string) error {
	return explained(err, checkout.ErrNotFound, "there is no merchant %s", id)
}

// explained returns a text for operators in the place of err, if that is cause.
func explained(err, cause error, format string, args ...any) error {
	if errors.Is(err, cause) {
		return fmt.Errorf(format, args...)
	}
	return err
}

// printer prints what a command tells.
type printer struct {
	out    io.Writer // the command's output, fit for a script
	notes  io.Writer // explanations for people
	asJSON bool      // print lists as JSON
}

// addJSON adds the flag --json to a command that prints a list.
func (p *printer) addJSON(command *cobra.Command) *cobra.Command {
	command.Flags().BoolVar(&p.asJSON, "json", false, "print JSON instead of a table")
	return command
}

// said prints what a command did, unless err says that it failed.
func (p printer) said(err error, format string, args ...any) error {
	if err == nil {
		_, err = fmt.Fprintf(p.out, format, args...)
	}
	return err
}

// printList prints v for a script, or rows for people.
func (p printer) printList(v any, rows ...[]string) error {
	if p.asJSON {
		return p.printJSON(v)
	}
	return p.printTable(rows...)
}

// printJSON writes v for a script; an empty list is [].
func (p printer) printJSON(v any) error {
	e := json.NewEncoder(p.out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// printTable writes rows in columns. It replaces characters that could control the terminal.
func (p printer) printTable(rows ...[]string) error {
	w := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		for i, cell := range row {
			if cell == "" {
				row[i] = "-"
			}
			row[i] = strings.Map(func(r rune) rune {
				if action.Hidden(r) {
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
