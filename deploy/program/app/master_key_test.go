package app_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/storage/pg"
)

// newMasterKey runs the command without any setting.
func newMasterKey(t *testing.T) (id, entry string) {
	entry = strings.TrimSpace(operator{t: t}.must("master-key", "new"))
	id, _, _ = strings.Cut(entry, ":")
	return id, entry
}

func TestReseal_SaysWhichKeysMayLeave(t *testing.T) {
	o := newOperator(t)
	oldID, old := newMasterKey(t)
	freshID, fresh := newMasterKey(t)
	require.NotEqual(t, oldID, freshID)
	reseal := func(keys ...string) (string, error) {
		o.environment = []string{"CHECKOUT_MASTER_KEYS=" + strings.Join(keys, ",")}
		out, notes, err := o.run("reseal")
		require.NotContains(t, out+notes, strings.TrimPrefix(old, oldID+":"))
		return out, err
	}

	out, err := reseal(old)
	require.NoError(t, err)
	require.Contains(t, out, "everything is sealed with key "+oldID+"; no other key is in use")

	_, err = reseal(fresh)
	require.ErrorIs(t, err, pg.ErrWrongMasterKey)
	require.ErrorContains(t, err, "CHECKOUT_MASTER_KEYS: ")
	require.ErrorContains(t, err, oldID)

	out, err = reseal(fresh, old)
	require.NoError(t, err)
	require.Contains(t, out, "key "+oldID+" is no longer needed: remove it from CHECKOUT_MASTER_KEYS")

	_, err = reseal(fresh)
	require.NoError(t, err)
}
