package e2e

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/program/app"
	"example.com/checkout/deploy/standin/devstack"
)

// CheckoutCommand runs a command of the program as an operator does, in this process. It returns what the command said.
func CheckoutCommand(t *testing.T, stack *devstack.Stack, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(t.Context(), LeastPatience)
	defer cancel()
	said := &Words{}
	err := app.Main(ctx, args, stack.OperatorsEnvironment(), said, said)
	if err != nil {
		fmt.Fprintln(said, "checkout:", err)
	}
	return said.String(), err
}

// MustCommand is CheckoutCommand for a command that must succeed.
func MustCommand(t *testing.T, stack *devstack.Stack, args ...string) string {
	out, err := CheckoutCommand(t, stack, args...)
	require.NoError(t, err, out)
	return out
}

// RequireRefused runs a command of the program that must fail and print why. It returns what the command printed.
func RequireRefused(t *testing.T, stack *devstack.Stack, why string, args ...string) string {
	out, err := CheckoutCommand(t, stack, args...)
	require.Error(t, err)
	require.Contains(t, out, why)
	return out
}

// Words is the output of a command. Several goroutines may write to it: a command logs while it works.
type Words struct {
	sync.Mutex
	strings.Builder
}

func (w *Words) Write(p []byte) (int, error) {
	w.Lock()
	defer w.Unlock()
	return w.Builder.Write(p)
}

// String returns the output so far.
func (w *Words) String() string {
	w.Lock()
	defer w.Unlock()
	return w.Builder.String()
}

// Release runs checkout release.
func Release(t *testing.T, stack *devstack.Stack, build string) {
	ReleaseAt(t, stack.Environment(), build)
}

// ReleaseAt is Release for a stack that another process runs, by its settings.
func ReleaseAt(t *testing.T, settings []string, build string) {
	require.NoError(t, app.Main(t.Context(), []string{"release", build, "--wait"}, settings, os.Stderr, os.Stderr))
}
