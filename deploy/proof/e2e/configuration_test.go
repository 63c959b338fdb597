package e2e_test

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/program/app"
	"example.com/checkout/deploy/proof/e2e"
)

// configurationCase is what differs from a good environment, and the settings
// that the message must name.
type configurationCase struct {
	Name, Why string
	Command   string            // api when left out
	Set       map[string]string // NAME: value; ‹free port› and the like as in corpusWorld.say
	Unset     []string
	Names     []string // all of Set and Unset when left out
}

// TestCorpus_NothingStartsWithAWrongConfiguration starts the command with every
// environment of testdata/corpus/configuration: it ends at once with an error that
// names the wrong settings without quoting them.
func TestCorpus_NothingStartsWithAWrongConfiguration(t *testing.T) {
	t.Parallel()
	cases := loadCorpus[category[configurationCase]](t, "configuration")["configuration"].Cases
	require.GreaterOrEqual(t, len(cases), 30)
	for _, c := range cases {
		require.NotEmpty(t, c.Why, c.Name)
		c.Command = cmp.Or(c.Command, "api")
		if c.Names == nil {
			c.Names = append(slices.Sorted(maps.Keys(c.Set)), c.Unset...)
		}
		t.Run(c.Name, func(t *testing.T) { c.refused(t) })
	}
}

func (c configurationCase) refused(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), e2e.LeastPatience)
	defer cancel()
	settings := append(e2e.Shared.Environment(), // whose addresses are taken
		"CHECKOUT_API_ADDRESS=127.0.0.1:0", "CHECKOUT_PAGE_ADDRESS=127.0.0.1:0", "CHECKOUT_DASHBOARD_ADDRESS=127.0.0.1:0")
	settings = slices.DeleteFunc(settings, func(setting string) bool {
		name, _, _ := strings.Cut(setting, "=")
		return slices.Contains(c.Unset, name)
	})
	for name, value := range c.Set {
		settings = append(settings, name+"="+value) // the last of a name counts
	}
	var out e2e.Words // the test process logs to it too
	err := app.Main(ctx, []string{c.Command}, settings, &out, &out)
	require.NoError(t, ctx.Err(), "it runs: %s", &out)
	require.Error(t, err)
	require.Equal(t, 1, app.ExitStatus(err))
	said := out.String() + err.Error()
	for _, name := range c.Names {
		require.Contains(t, said, name)
	}
	require.NotContains(t, said, "canary", "values may be secrets")
}
