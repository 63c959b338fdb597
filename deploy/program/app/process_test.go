package app_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/program/app"
	"example.com/checkout/storage/storagetest"
	"example.com/checkout/workflows/checkout"
)

// A script must not take a command for done that was stopped while it waited.
func TestMain_ACommandThatIsStoppedWhileItWaitsFails(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	stop()
	environment := []string{"DATABASE_URL=postgres://nobody@127.0.0.1:1/none", "CHECKOUT_MASTER_KEYS=" + storagetest.New(t).MasterKeys}
	var out, notes bytes.Buffer
	err := app.Main(ctx, []string{"treasury", "freeze", checkout.NewID(checkout.PrefixTreasury)}, environment, &out, &notes)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 1, app.ExitStatus(err))
	require.NoError(t, app.Main(ctx, []string{"api"}, environment, &out, &notes), "a process ends when it is stopped")
}
