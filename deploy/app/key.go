package app

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strings"
	"time"

	"example.com/checkout/workflows/checkout"
)

var keyCommands = accountCommands{
	name: "key",
	usage: `usage: checkout key COMMAND

  create mer_… --mode test|live --label "server" [--scopes full]
                   make a key; it is the last line of standard output, and is not shown again
  list mer_… [--json]
                   a merchant's keys, newest first, revoked ones included
  revoke key_…     make every later request with the key fail, at once and everywhere

--scopes are separated by commas. full, the default, allows everything and read reads everything; the others are
` + "  " + strings.Join(checkout.AllScopes[2:], ", ") + `
of which write includes read. To replace a key, create one with the same label, deploy it, wait until list shows
that it is used, then revoke the old one.

These need DATABASE_URL and no other setting.
`,
	parse: map[string]func([]string) (accountAction, error){"create": parseKeyCreate, "list": parseKeyList, "revoke": parseKeyRevoke},
}

func parseKeyCreate(args []string) (accountAction, error) {
	k := checkout.APIKey{Ref: checkout.Ref{ID: checkout.NewID(checkout.PrefixAPIKey)}}
	var mode, scopes string
	flags := flag.NewFlagSet("key create", flag.ContinueOnError)
	flags.StringVar(&mode, "mode", "", "")
	flags.StringVar(&k.Label, "label", "", "")
	flags.StringVar(&scopes, "scopes", checkout.ScopeFull, "")
	var err error
	if k.MerchantID, err = parseID(flags, args, checkout.PrefixMerchant, "checkout merchant list"); err != nil {
		return nil, err
	}
	if k.Mode, err = parseMode(mode); err != nil {
		return nil, err
	}
	if err := checkWords("label", k.Label); err != nil {
		return nil, err
	}
	if scopes == "" { // a variable of a script that is not set must not become a key that may do everything
		return nil, fmt.Errorf("--scopes is empty; scopes are %s", strings.Join(checkout.AllScopes, ", "))
	}
	if k.Scopes, err = checkout.ParseScopes(scopes); err != nil {
		return nil, fmt.Errorf("--scopes: %w", err)
	}
	return func(ctx context.Context, c console) error { return c.createKey(ctx, k) }, nil
}

// createKey makes a key and shows it for the only time.
func (c console) createKey(ctx context.Context, k checkout.APIKey) error {
	secret := checkout.NewAPIKey(k.Mode)
	err := c.CreateAPIKey(ctx, k, secret, operatorsEntry(k.MerchantID, &k.Mode, "api_key.created", k.ID,
		fmt.Sprintf("“%s”, ends in %s, scopes %s", k.Label, secret[len(secret)-4:], strings.Join(k.Scopes, ","))))
	if errors.Is(err, checkout.ErrNotFound) {
		return fmt.Errorf("there is no merchant %s", k.MerchantID)
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(c.notes, "%s of %s: %s mode, label %q, scopes %s.\nThis is the key. Keep it now: it is not shown again.\n",
		k.ID, k.MerchantID, k.Mode, k.Label, strings.Join(k.Scopes, ","))
	if _, err := fmt.Fprintln(c.out, secret); err != nil {
		return fmt.Errorf("the key could not be shown; revoke %s and create another: %w", k.ID, err)
	}
	return nil
}

func parseKeyList(args []string) (accountAction, error) {
	flags := flag.NewFlagSet("key list", flag.ContinueOnError)
	asJSON := flags.Bool("json", false, "")
	merchant, err := parseID(flags, args, checkout.PrefixMerchant, "checkout merchant list")
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, c console) error { return c.listKeys(ctx, merchant, *asJSON) }, nil
}

// listedKey is a key as --json shows it.
type listedKey struct {
	ID         string          `json:"id"`
	MerchantID string          `json:"merchant_id"`
	Mode       checkout.Mode   `json:"mode"`
	Label      string          `json:"label"`
	Scopes     checkout.Scopes `json:"scopes"`
	Last4      string          `json:"last4"`
	CreatedAt  string          `json:"created_at"`
	UsedAt     *string         `json:"last_used_at"`
	RevokedAt  *string         `json:"revoked_at"`
}

func (c console) listKeys(ctx context.Context, merchantID string, asJSON bool) error {
	if _, err := c.findMerchant(ctx, merchantID); err != nil {
		return err
	}
	keys, err := c.APIKeys(ctx, merchantID)
	if err != nil {
		return err
	}
	listed := make([]listedKey, 0, len(keys))
	rows := [][]string{{"ID", "MODE", "LABEL", "SCOPES", "LAST4", "CREATED", "LAST USED", "REVOKED"}}
	for _, k := range keys {
		listed = append(listed, listedKey{k.ID, k.MerchantID, k.Mode, k.Label, k.Scopes, k.Last4,
			checkout.FormatTime(k.CreatedAt), checkout.FormatOptionalTime(k.UsedAt), checkout.FormatOptionalTime(k.RevokedAt)})
		rows = append(rows, []string{k.ID, string(k.Mode), k.Label, strings.Join(k.Scopes, ","), k.Last4,
			showTime(&k.CreatedAt), showTime(k.UsedAt), showTime(k.RevokedAt)})
	}
	if asJSON {
		return c.printJSON(listed)
	}
	return c.printTable(rows...)
}

func parseKeyRevoke(args []string) (accountAction, error) {
	id, err := parseID(flag.NewFlagSet("key revoke", flag.ContinueOnError), args, checkout.PrefixAPIKey, "checkout key list")
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, c console) error { return c.revokeKey(ctx, id) }, nil
}

func (c console) revokeKey(ctx context.Context, id string) error {
	k, err := c.APIKey(ctx, id)
	if err == nil {
		err = c.RevokeAPIKey(ctx, k.Ref, operatorsEntry(k.MerchantID, &k.Mode, "api_key.revoked", k.ID, fmt.Sprintf("“%s”, ends in %s", k.Label, k.Last4)))
	}
	if errors.Is(err, checkout.ErrNotFound) {
		return fmt.Errorf("there is no key %s", id)
	}
	if err != nil {
		return err
	}
	if k.RevokedAt != nil {
		_, err = fmt.Fprintf(c.out, "%s was revoked before, at %s\n", k.ID, k.RevokedAt.UTC().Format(time.RFC3339))
		return err
	}
	_, err = fmt.Fprintf(c.out, "revoked %s (%s mode, label %q, …%s) of %s\n", k.ID, k.Mode, k.Label, k.Last4, k.MerchantID)
	return err
}
