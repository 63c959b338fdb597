package app

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"example.com/checkout/api/action"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
)

func (c *call) keyCommand() *cobra.Command {
	return parentOf(&cobra.Command{
		Use:   "key",
		Short: "Create, list and revoke merchants' API keys",
		Long: `Creates, lists and revokes merchants' API keys. It needs DATABASE_URL and no other setting.

To replace a key, create one with the same label, deploy it, wait until list shows its use, then revoke
the old one.`,
	}, c.keyCreateCommand(), c.keyListCommand(), c.keyRevokeCommand())
}

func (c *call) keyCreateCommand() *cobra.Command {
	var mode, label, scopes string
	var key merchant.APIKey
	command := &cobra.Command{
		Use:   "create mer_… --mode test|live --label TEXT",
		Short: "Create a key and print it once",
		Long: `Creates a key and prints it as the last line of standard output. It is not shown again.

Scopes are separated by commas. full allows everything, read reads everything; the others are
  ` + strings.Join(merchant.AllScopes[2:6], ", ") + `,
  ` + strings.Join(merchant.AllScopes[6:], ", ") + `,
of which write includes read.`,
		Example: `  checkout key create mer_06gzx1s5q8v2m9kd3yet7b4wnc --mode test --label server
  KEY=$(checkout key create mer_06gzx1s5q8v2m9kd3yet7b4wnc --mode live --label till --scopes checkout:write)`,
		Args: idAnd(checkout.PrefixMerchant, listsMerchants),
		PreRunE: func(_ *cobra.Command, args []string) (err error) {
			key, err = newKey(args[0], mode, label, scopes)
			return err
		},
		RunE: c.operator(func(ctx context.Context, c console, _ []string) error { return c.createKey(ctx, key) }),
	}
	flags := command.Flags()
	flags.StringVar(&mode, "mode", "", "`mode` of the key: test or live")
	flags.StringVar(&label, "label", "", "`text` that names the key")
	flags.StringVar(&scopes, "scopes", merchant.ScopeFull, "what the key may do: `scopes` separated by commas")
	completes(command, "mode", string(checkout.ModeTest), string(checkout.ModeLive))
	completes(command, "scopes", merchant.AllScopes...)
	return command
}

// newKey reads the arguments and flags of key create.
func newKey(merchantID, mode, label, scopes string) (k merchant.APIKey, err error) {
	k.ID, k.MerchantID, k.Label = checkout.NewID(checkout.PrefixAPIKey), merchantID, label
	if k.Mode, err = parseMode(mode); err != nil {
		return k, err
	}
	if err := checkWords("label", label); err != nil {
		return k, err
	}
	if scopes == "" { // an unset variable in a script must not make a key with all rights
		return k, fmt.Errorf("--scopes is empty; scopes are %s", strings.Join(merchant.AllScopes, ", "))
	}
	if k.Scopes, err = merchant.ParseScopes(scopes); err != nil {
		return k, fmt.Errorf("--scopes: %w", err)
	}
	return k, nil
}

// createKey makes a key and prints it. The key cannot be shown again.
func (c console) createKey(ctx context.Context, k merchant.APIKey) error {
	secret := merchant.NewAPIKey(k.Mode)
	err := action.CreateKey(ctx, c.Accounts.Merchants, k, secret, action.Operator)
	if err = noMerchant(err, k.MerchantID); err != nil {
		return err
	}
	fmt.Fprintf(
		c.notes,
		"%s of %s: %s mode, label %q, scopes %s.\nThis is the key. Store it now: it is not shown again.\n",
		k.ID, k.MerchantID, k.Mode, k.Label, strings.Join(k.Scopes, ","),
	)
	if _, err := fmt.Fprintln(c.out, secret); err != nil {
		return fmt.Errorf("the key could not be shown; revoke %s and create another: %w", k.ID, err)
	}
	return nil
}

func (c *call) keyListCommand() *cobra.Command {
	return c.addJSON(&cobra.Command{
		Use:   "list mer_…",
		Short: "List a merchant's keys, newest first",
		Long: `Lists a merchant's keys, newest first, including revoked ones. A key without recent use shows - as its
last use.`,
		Args: idAnd(checkout.PrefixMerchant, listsMerchants),
		RunE: c.operator(func(ctx context.Context, c console, args []string) error { return c.listKeys(ctx, args[0]) }),
	})
}

// listedKey is a key in the output of --json.
type listedKey struct {
	ID         string          `json:"id"`
	MerchantID string          `json:"merchant_id"`
	Mode       checkout.Mode   `json:"mode"`
	Label      string          `json:"label"`
	Scopes     merchant.Scopes `json:"scopes"`
	Last4      string          `json:"last4"`
	CreatedAt  string          `json:"created_at"`
	UsedAt     *string         `json:"last_used_at"`
	RevokedAt  *string         `json:"revoked_at"`
}

func (c console) listKeys(ctx context.Context, merchantID string) error {
	if _, err := c.findMerchant(ctx, merchantID); err != nil {
		return err
	}
	keys, err := c.Merchants.APIKeys(ctx, merchantID)
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
	return c.printList(listed, rows...)
}

func (c *call) keyRevokeCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "revoke key_…",
		Short: "Revoke a key",
		Long:  `Revokes a key: every later request with it fails, immediately and everywhere. The command is idempotent.`,
		Args:  idAnd(checkout.PrefixAPIKey, "checkout key list"),
		RunE:  c.operator(func(ctx context.Context, c console, args []string) error { return c.revokeKey(ctx, args[0]) }),
	}
}

func (c console) revokeKey(ctx context.Context, id string) error {
	k, err := c.Merchants.APIKey(ctx, id)
	if err == nil {
		err = action.RevokeKey(ctx, c.Accounts.Merchants, k.Ref, action.Operator)
	}
	err = explained(err, checkout.ErrNotFound, "there is no key %s", id)
	if k.RevokedAt != nil {
		return c.said(err, "%s was already revoked at %s\n", k.ID, showTime(k.RevokedAt))
	}
	return c.said(err, "revoked %s (%s mode, label %q, …%s) of %s\n", k.ID, k.Mode, k.Label, k.Last4, k.MerchantID)
}
