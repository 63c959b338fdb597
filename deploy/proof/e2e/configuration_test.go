package e2e_test

import (
	"context"
	"errors"
	"maps"
	"os"
	"os/exec"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/proof/e2e"
)

// configurationFile is a category of environments that nothing may start with.
type configurationFile struct {
	Category string
	Note     string
	Cases    []configurationCase
}

// configurationCase is what differs from a good environment, and the settings
// that the message must name.
type configurationCase struct {
	Name, Why string
	Command   string            // api when left out
	Set       map[string]string // NAME: value; ‹free port› and the like as in corpusWorld.say
	Unset     []string
	Names     []string // all of Set and Unset when left out
}

// TestCorpus_NothingStartsWithAWrongConfiguration starts the service with every
// environment of testdata/corpus/configuration: it ends at once, not with 0, and
// says which settings are wrong without quoting them.
func TestCorpus_NothingStartsWithAWrongConfiguration(t *testing.T) {
	t.Parallel()
	counts := map[string]int{}
	for _, f := range loadCorpus[configurationFile](t, "configuration") {
		counts[f.Category] += len(f.Cases)
		for _, c := range f.Cases {
			require.NotEmpty(t, c.Why, c.Name)
			first(&c.Command, "api")
			if c.Names == nil {
				c.Names = append(slices.Sorted(maps.Keys(c.Set)), c.Unset...)
			}
			t.Run(c.Name, func(t *testing.T) { c.refused(t) })
		}
	}
	require.GreaterOrEqual(t, counts["configuration"], 30)
	logCounts(t, "refused at the start", counts)
}

func (c configurationCase) refused(t *testing.T) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), e2e.LeastPatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, self)
	cmd.Dir, cmd.Env = t.TempDir(), []string{"PATH=" + os.Getenv("PATH"), "CHECKOUT_DEVSTACK_COMMAND=" + c.Command}
	settings := append(e2e.Shared.Environment(), // whose addresses are taken
		"CHECKOUT_API_ADDRESS=127.0.0.1:0", "CHECKOUT_PAGE_ADDRESS=127.0.0.1:0", "CHECKOUT_DASHBOARD_ADDRESS=127.0.0.1:0")
	for _, setting := range settings {
		if !slices.ContainsFunc(c.Unset, func(name string) bool { return len(setting) > len(name) && setting[:len(name)+1] == name+"=" }) {
			cmd.Env = append(cmd.Env, setting)
		}
	}
	for name, value := range c.Set {
		cmd.Env = append(cmd.Env, name+"="+value) // the last of a name counts
	}
	out, err := cmd.CombinedOutput()
	require.NoError(t, ctx.Err(), "it runs: %s", out)
	var exit *exec.ExitError
	require.True(t, errors.As(err, &exit), "%v: %s", err, out)
	require.Positive(t, exit.ExitCode(), "%s", out)
	for _, name := range c.Names {
		require.Contains(t, string(out), name)
	}
	require.NotContains(t, string(out), "canary", "values may be secrets")
	require.NotContains(t, string(out), "panic", "%s", out)
	require.NotContains(t, string(out), "goroutine")
}
