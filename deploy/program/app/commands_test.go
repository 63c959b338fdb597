package app

import (
	"bytes"
	"strings"
	"testing"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/program/telemetry"
)

// allCommands are all commands as people type them.
var allCommands = []string{
	"api", "completion", "completion bash", "completion fish", "completion powershell", "completion zsh",
	"customer", "customer erase", "delivery", "delivery failed", "finding", "finding close", "finding list", "health", "help",
	"key", "key create", "key list", "key revoke", "listen", "master-key", "master-key new", "merchant",
	"merchant create", "merchant invite", "merchant list", "merchant plan", "merchant reset-factor", "merchant resume", "merchant show", "merchant stop-address", "merchant suspend", "merchant terms",
	"payout", "payout release", "payout retry", "payout show", "refund", "release",
	"replay", "report", "reseal", "setup", "treasury", "treasury cancel", "treasury freeze", "treasury recover",
	"treasury show", "treasury thaw", "worker",
}

// run calls Main without settings.
func run(t *testing.T, args ...string) (out, notes string, err error) {
	var outBuffer, notesBuffer bytes.Buffer
	err = Main(t.Context(), args, nil, &outBuffer, &notesBuffer)
	return outBuffer.String(), notesBuffer.String(), err
}

func TestCommands_EachSaysInAShortSentenceWhatItDoes(t *testing.T) {
	t.Parallel()
	var found []string
	var walk func(parent *cobra.Command)
	walk = func(parent *cobra.Command) {
		for _, command := range parent.Commands() {
			name := strings.TrimPrefix(command.CommandPath(), program+" ")
			found = append(found, name)
			require.NotEmpty(t, command.Short, name)
			require.LessOrEqual(t, len(command.Short), 70, name)
			require.True(t, unicode.IsUpper(rune(command.Short[0])), name)
			require.NotEqual(t, ".", command.Short[len(command.Short)-1:], name)
			require.NotNil(t, command.Args, "%s: a rule for its words", name)
			walk(command)
		}
	}
	walk((&call{}).parser())
	require.Equal(t, allCommands, found)
}

func TestCommands_TheProgramSaysItsVersion(t *testing.T) {
	t.Parallel()
	out, notes, err := run(t, "--version")
	require.NoError(t, err)
	require.Empty(t, notes)
	require.Equal(t, "checkout version "+telemetry.Version()+"\n", out)
}

func TestCommands_EachExplainsItself(t *testing.T) {
	t.Parallel()
	for _, name := range allCommands {
		words := strings.Fields(name)
		long, notes, err := run(t, append(words, "--help")...)
		require.NoError(t, err, name)
		require.Empty(t, notes, name)
		require.Contains(t, long, "Usage:\n  checkout "+name, name)
		for _, call := range [][]string{append(words, "-h"), append([]string{"help"}, words...)} {
			out, notes, err := run(t, call...)
			require.NoError(t, err, call)
			require.Empty(t, notes, call)
			require.Equal(t, long, out, call)
		}
	}
}

func TestCommands_FlagsAreListedWithTheirDefaults(t *testing.T) {
	t.Parallel()
	for command, flags := range map[string][]string{
		"delivery failed": {"--json ", "--limit n ", "(default 100)"},
		"key create":      {"--label text ", "--mode mode ", "--scopes scopes ", `(default "full")`, "checkout:read, checkout:write, webhooks:read"},
		"listen":          {"--api URL ", `(default "http://127.0.0.1:8080")`, "--events types", "--since then", "--state file", "--json", "--plain-http", "(default all)", "(default where the last run ended)"},
		"merchant create": {"--name TEXT [flags]", "--payout CURRENCY=network:address ", `(default "standard")`, `(default "test")`, "--with-key", "USDT=ethereum, USDC=ethereum, BTC=bitcoin, ETH=ethereum"},
		"merchant invite": {"--email address ", "--role role ", `(default "owner")`},
		"merchant plan":   {"--fee-basis-points part ", "--fee-fixed amount ", "standard (1.00 %) or growth (0.80 %)"},
		"release":         {"--runs "},
		"report":          {"--day date ", "(default yesterday)", "--json "},
	} {
		out, _, err := run(t, append(strings.Fields(command), "--help")...)
		require.NoError(t, err)
		require.Contains(t, out, "Examples:\n  ", command)
		for _, want := range flags {
			require.Contains(t, out, want, command)
		}
	}
}

func TestMain_WithoutACommandExplainsItself(t *testing.T) {
	t.Parallel()
	for _, call := range [][]string{nil, {"help"}, {"-h"}, {"--help"}} {
		out, notes, err := run(t, call...)
		require.NoError(t, err, call)
		require.Equal(t, 0, ExitStatus(err))
		require.Empty(t, notes)
		for _, name := range allCommands {
			if !strings.Contains(name, " ") {
				require.Regexp(t, `(?m)^  `+name+` +[A-Z]`, out, call)
			}
		}
	}
}

func TestMain_NamesTheSettingsThatAreMissing(t *testing.T) {
	t.Parallel()
	_, _, err := run(t, "setup")
	require.ErrorContains(t, err, "DATABASE_URL is not set")
	require.Equal(t, 1, ExitStatus(err), "the call is right, the settings are not")
}

func TestCompletion_PrintsAScriptAndOffersWhatThereIs(t *testing.T) {
	t.Parallel()
	for shell, want := range map[string]string{"bash": "__start_checkout", "zsh": "#compdef checkout", "fish": "complete -c checkout"} {
		out, notes, err := run(t, "completion", shell)
		require.NoError(t, err)
		require.Empty(t, notes)
		require.Contains(t, out, want)
	}
	for _, c := range []struct {
		words []string // the last one is the word to complete
		want  []string
	}{
		{[]string{"key", ""}, []string{"create", "list", "revoke"}},
		{[]string{"key", "create", "mer_1", "--mode", ""}, []string{"test", "live"}},
		{[]string{"merchant", "create", "--mode", ""}, []string{"test", "live", "both"}},
		{[]string{"merchant", "invite", "mer_1", "--role", ""}, []string{"owner", "developer", "viewer"}},
		{[]string{"listen", "--events", ""}, []string{"checkout.completed", "checkout.failed", "payout.sent", "payout.failed", "merchant.updated",
			"refund.succeeded", "refund.failed", "dispute.opened", "dispute.closed", "payout.reduced"}},
		{[]string{"key", "revoke", ""}, nil}, // no proposals, also no file names
	} {
		out, _, err := run(t, append([]string{cobra.ShellCompNoDescRequestCmd}, c.words...)...)
		require.NoError(t, err)
		require.Equal(t, append(c.want, ":4"), strings.Fields(out), c.words)
	}
}
