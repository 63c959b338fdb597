package e2e

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"example.com/checkout/deploy/app"

	"example.com/checkout/deploy/devstack"
)

// checkoutCommand runs a command of the production binary.
func checkoutCommand(t *testing.T, stack *devstack.Stack, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), leastPatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", append([]string{"run", "../cmd/checkout"}, args...)...)
	cmd.Env = append(os.Environ(), stack.Environment()...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// release runs checkout release.
func release(t *testing.T, stack *devstack.Stack, build string) {
	t.Helper()
	await(t, "build "+build+" is released", 30*time.Second, func() bool { // its workers are seen after a moment
		return app.Main(t.Context(), []string{"release", build}, stack.Environment(), os.Stderr, os.Stderr) == nil
	})
}
