package app

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"example.com/checkout/api/action"
	"example.com/checkout/workflows/checkout"
	"example.com/checkout/workflows/merchant"
)

var keyCommand = command{
	use:   "key",
	short: "Create, list and revoke merchants' API keys",
	long: `Creates, lists and revokes merchants' API keys. It needs DATABASE_URL and no other setting.

To replace a key, create one with the same label, deploy it, wait until list shows its use, then revoke
the old one.`,
	children: []command{
		{
			use:   "create mer_… --mode test|live --label TEXT",
			short: "Create a key and print it once",
			long: `Creates a key and prints it as the last line of standard output. It is not shown again.

Scopes are separated by commas. full allows everything, read reads everything; the others are
  ` + strings.Join(merchant.AllScopes[2:6], ", ") + `,
  ` + strings.Join(merchant.AllScopes[6:9], ", ") + `,
  ` + strings.Join(merchant.AllScopes[9:], ", ") + `,
of which write includes read.`,
			example: `  checkout key create mer_06gzx1s5q8v2m9kd3yet7b4wnc --mode test --label server
  KEY=$(checkout key create mer_06gzx1s5q8v2m9kd3yet7b4wnc --mode live --label till --scopes checkout:write)`,
			args: idAnd(checkout.PrefixMerchant, listsMerchants),
			flags: func(f *pflag.FlagSet) {
				f.String("mode", "", "`mode` of the key: test or live")
				f.String("label", "", "`text` that names the key")
				f.String("scopes", merchant.ScopeFull, "what the key may do: `scopes` separated by commas")
			},
			values: map[string][]string{"mode": modes, "scopes": merchant.AllScopes},
			check:  reading((*call).newKey),
			run: withKeyless(func(c keylessCall, ctx context.Context) (result, error) {
				return c.createKey(ctx, c.order.(merchant.APIKey))
			}),
		},
		{
			use:   "list mer_…",
			short: "List a merchant's keys, newest first",
			long: `Lists a merchant's keys, newest first, including revoked ones. A key without recent use shows - as its
last use.`,
			args:   idAnd(checkout.PrefixMerchant, listsMerchants),
			asJSON: true,
			run:    withKeyless(keylessCall.listKeys),
		},
		{
			use:   "revoke key_…",
			short: "Revoke a key",
			long:  `Revokes a key: every later request with it fails, immediately and everywhere. The command is idempotent.`,
			args:  idAnd(checkout.PrefixAPIKey, "checkout key list"),
			run:   withKeyless(keylessCall.revokeKey),
		},
	},
}

// newKey reads the words and flags of key create.
func (c *call) newKey() (k merchant.APIKey, err error) {
	k.ID, k.MerchantID = checkout.NewID(checkout.PrefixAPIKey), c.args[0]
	k.Mode, k.Label = c.mode(), c.text("label")
	if err := c.checkMode(); err != nil {
		return k, err
	}
	if err := c.checkLabel("label"); err != nil {
		return k, err
	}
	scopes := c.text("scopes")
	if scopes == "" { // an unset variable in a script must not make a key with all rights
		return k, fmt.Errorf("--scopes is empty; scopes are %s", strings.Join(merchant.AllScopes, ", "))
	}
	if k.Scopes, err = merchant.ParseScopes(scopes); err != nil {
		return k, fmt.Errorf("--scopes: %w", err)
	}
	return k, nil
}

// createKey makes a key and shows it. The key cannot be shown again.
func (c keylessCall) createKey(ctx context.Context, k merchant.APIKey) (result, error) {
	key := merchant.NewAPIKey(k.Mode)
	if err := action.CreateKey(ctx, c.Keyless.Merchants, k, key, action.Operator); err != nil {
		return nil, noMerchant(err, k.MerchantID)
	}
	return result{
		note(fmt.Sprintf("%s of %s: %s mode, label %q, scopes %s.\nThis is the key. Store it now: it is not shown again.",
			k.ID, k.MerchantID, k.Mode, k.Label, strings.Join(k.Scopes, ","))),
		secret{key, fmt.Sprintf("the key could not be shown; revoke %s and create another", k.ID)},
	}, nil
}

func (c keylessCall) listKeys(ctx context.Context) (result, error) {
	if _, err := c.Merchants.Merchant(ctx, c.args[0]); err != nil {
		return nil, noMerchant(err, c.args[0])
	}
	keys, err := c.Merchants.APIKeys(ctx, c.args[0])
	list := newTable(
		"id:ID", "merchant_id", "mode:MODE", "label:LABEL", "scopes:SCOPES", "last4:LAST4", "created_at:CREATED",
		"last_used_at:LAST USED", "revoked_at:REVOKED",
	)
	for _, k := range keys {
		list.add(k.ID, k.MerchantID, k.Mode, k.Label, k.Scopes, k.Last4, k.CreatedAt, k.UsedAt, k.RevokedAt)
	}
	return resultOf(err, list)
}

func (c keylessCall) revokeKey(ctx context.Context) (result, error) {
	k, err := c.Merchants.APIKey(ctx, c.args[0])
	if err == nil {
		err = action.RevokeKey(ctx, c.Keyless.Merchants, k.Ref, action.Operator)
	}
	err = explain(err, checkout.ErrNotFound, "there is no key %s", c.args[0])
	if k.RevokedAt != nil {
		return resultLine(err, "%s was already revoked at %s", k.ID, showTime(k.RevokedAt))
	}
	return resultLine(err, "revoked %s (%s mode, label %q, …%s) of %s", k.ID, k.Mode, k.Label, k.Last4, k.MerchantID)
}
