package app

import (
	"context"
	"fmt"
	"strings"

	"example.com/checkout/storage/pg"
	"example.com/checkout/workflows/checkout"
)

var masterKeyCommand = command{
	use:   "master-key",
	short: "Create a key for CHECKOUT_MASTER_KEYS",
	long:  `The first key of CHECKOUT_MASTER_KEYS seals the secrets in the database; all of them unseal.`,
	children: []command{{
		use:   "new",
		short: "Print a new key",
		long: `Prints a new key with a new id, as an entry for CHECKOUT_MASTER_KEYS. It needs no setting and stores
nothing. checkout reseal --help explains key rotation.`,
		example: "  checkout master-key new",
		args:    words(),
		run: func(*call, context.Context) (result, error) {
			return result{pg.NewMasterKey(checkout.NewID(checkout.PrefixMasterKey))}, nil
		},
	}},
}

var resealCommand = command{
	use:   "reseal",
	short: "Re-encrypt secrets with the first master key",
	long: `Re-encrypts, with the first key of CHECKOUT_MASTER_KEYS, what other keys sealed. The service keeps
running. You can stop and repeat the command, or run several at once. At the end it lists the keys that
are no longer needed.

To rotate a key:
  1. append the new key to CHECKOUT_MASTER_KEYS of every process, and restart all of them
  2. move it to the front, and restart all of them
  3. run checkout reseal with the same keys
  4. remove the old key, and restart all of them`,
	args: words(),
	run:  withStore(storeCall.reseal),
}

func (c storeCall) reseal(ctx context.Context) (got result, err error) {
	done, err := c.Installation.Reseal(ctx, func(what string, rows int) {
		fmt.Fprintf(c.notes, "%s: %d sealed again\n", what, rows)
	})
	if err != nil {
		return nil, err
	}
	for _, id := range done.Retired {
		got = append(got, fmt.Sprintf("key %s is no longer needed: remove it from CHECKOUT_MASTER_KEYS", id))
	}
	if len(done.Used) > 0 {
		return got, fmt.Errorf("still in use: key %s. A process may have it as its first key. "+
			"Restart it with %s in front, then run reseal again", strings.Join(done.Used, ", key "), done.Current)
	}
	if len(done.Retired) == 0 {
		got = append(got, fmt.Sprintf("everything is sealed with key %s; no other key is in use", done.Current))
	}
	return got, nil
}
