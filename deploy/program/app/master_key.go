package app

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"example.com/checkout/storage"
	"example.com/checkout/workflows/checkout"
)

func (c *call) masterKeyCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "master-key",
		Short: "Make a key for CHECKOUT_MASTER_KEYS",
		Long:  `The first key of CHECKOUT_MASTER_KEYS seals the secrets in the database; all of them unseal.`,
	}
	command.AddCommand(&cobra.Command{
		Use:   "new",
		Short: "Print a fresh key",
		Long: `Prints a fresh key as an entry for CHECKOUT_MASTER_KEYS. Its id is new, too. It needs no setting and
stores nothing. checkout reseal --help says how to change from one key to another.`,
		Example: "  checkout master-key new",
		Args:    words(),
		RunE: func(*cobra.Command, []string) error {
			c.work = func(context.Context) error {
				_, err := fmt.Fprintln(c.out, storage.NewMasterKey(checkout.NewID(checkout.PrefixMasterKey)))
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
		Short: "Seal with the first master key what others sealed",
		Long: `Seals again, with the first key of CHECKOUT_MASTER_KEYS, what other keys sealed. Nothing stops while it
runs. It may be stopped and repeated, and several may run at once. At its end it says which keys nothing
needs any more.

To change a key:
  1. append the new key to CHECKOUT_MASTER_KEYS of every process, and start all of them again
  2. move it to the front, and start all of them again
  3. run checkout reseal with the same keys
  4. take the old key away, and start all of them again`,
		Args: words(),
		RunE: c.configured(ends, func([]string) serviceAction { return c.withStore(c.reseal) }),
	}
}

func (c *call) reseal(ctx context.Context, store *storage.Store) error {
	done, err := store.Reseal(ctx, func(what string, rows int) {
		fmt.Fprintf(c.notes, "%s: %d sealed again\n", what, rows)
	})
	if err != nil {
		return err
	}
	for _, id := range done.Retired {
		fmt.Fprintf(c.out, "nothing needs key %s any more: take it out of CHECKOUT_MASTER_KEYS\n", id)
	}
	if len(done.Used) > 0 {
		return fmt.Errorf("still in use: key %s. A process may have it as its first key. "+
			"Start it again with %s in front, then run reseal again", strings.Join(done.Used, ", key "), done.Current)
	}
	if len(done.Retired) == 0 {
		fmt.Fprintf(c.out, "everything is sealed with key %s, and there was no other\n", done.Current)
	}
	return nil
}
