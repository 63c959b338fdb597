package e2e

import (
	"context"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/program/app"

	"example.com/checkout/deploy/standin/devstack"
)

// CheckoutCommand runs a command of the production binary.
func CheckoutCommand(t *testing.T, stack *devstack.Stack, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), LeastPatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", append([]string{"run", "example.com/checkout/deploy/cmd/checkout"}, args...)...)
	cmd.Env = append(os.Environ(), stack.OperatorsEnvironment()...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// Release runs checkout release.
func Release(t *testing.T, stack *devstack.Stack, build string) {
	t.Helper()
	require.NoError(t, app.Main(t.Context(), []string{"release", build, "--wait"}, stack.Environment(), os.Stderr, os.Stderr))
}
