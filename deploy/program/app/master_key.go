package app

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"example.com/checkout/storage"
	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
)

func (c *call) masterKeyCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "master-key",
		Short: "Create a key for CHECKOUT_MASTER_KEYS",
		Long:  `The first key of CHECKOUT_MASTER_KEYS seals the secrets in the database; all of them unseal.`,
	}
	command.AddCommand(&cobra.Command{
		Use:   "new",
		Short: "Print a new key",
		Long: `Prints a new key with a new id, as an entry for CHECKOUT_MASTER_KEYS. It needs no setting and stores
nothing. checkout reseal --help explains key rotation.`,
		Example: "  checkout master-key new",
		Args:    words(),
		RunE: func(*cobra.Command, []string) error {
			c.work = func(context.Context) error {
				_, err := fmt.Fprintln(c.out, pg.NewMasterKey(checkout.NewID(checkout.PrefixMasterKey)))
				return err
			}
			return nil
		},
	})
	return command
}

func (c *call) resealCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "reseal",
		Short: "Re-encrypt secrets with the first master key",
		Long: `Re-encrypts, with the first key of CHECKOUT_MASTER_KEYS, what other keys sealed. The service keeps
running. You can stop and repeat the command, or run several at once. At the end it lists the keys that
are no longer needed.

To rotate a key:
  1. append the new key to CHECKOUT_MASTER_KEYS of every process, and restart all of them
  2. move it to the front, and restart all of them
  3. run checkout reseal with the same keys
  4. remove the old key, and restart all of them`,
		Args: words(),
		RunE: c.stored(c.reseal),
	}
}

func (c *call) reseal(ctx context.Context, store *storage.Store, _ string) error {
	done, err := store.Installation.Reseal(ctx, func(what string, rows int) {
		fmt.Fprintf(c.notes, "%s: %d sealed again\n", what, rows)
	})
	if err != nil {
		return err
	}
	for _, id := range done.Retired {
		fmt.Fprintf(c.out, "key %s is no longer needed: remove it from CHECKOUT_MASTER_KEYS\n", id)
	}
	if len(done.Used) > 0 {
		return fmt.Errorf("still in use: key %s. A process may have it as its first key. "+
			"Restart it with %s in front, then run reseal again", strings.Join(done.Used, ", key "), done.Current)
	}
	if len(done.Retired) == 0 {
		fmt.Fprintf(c.out, "everything is sealed with key %s; no other key is in use\n", done.Current)
	}
	return nil
}
