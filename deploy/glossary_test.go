package deploy_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// retired are names that meant several things or nothing, with the word of the glossary in workflows/README.md.
var retired = map[string]string{
	"Sighting":         "TransferSnapshot",
	"AccountStanding":  "AccountSnapshot",
	"DeliveryStanding": "DeliveryState",
	"Outgoing":         "AttemptDecision",
	"offer":            "listing",
	"worth":            "bounds of an asset",
	"froze":            "noteFreeze",
	"telling":          "started",
	"strange":          "unexplained",
	"sighted":          "finalTransfer",
	"Feed":             "EventFeed, for GET /v1/events",
	"SigningKeys":      "WebhookKeys",
	"SyncReport":       "SyncResult",
	"AccountReport":    "AccountResult",
	"RecoveryReport":   "RecoveryResult",
	"TreasuryReport":   "TreasuryResult",
	"PayoutNetwork":    "Payouts of the sandbox",
	"RecordTransfer":   "RecordSandboxTransfer",
	"SendPayout":       "SendSandboxPayout",
}

func TestGlossary_RetiredNamesStayAway(t *testing.T) {
	t.Parallel()
	faults := map[string]bool{}
	eachGoFile(t, func(_, name string, _ *ast.File) {
		if strings.HasSuffix(name, "_test.go") {
			return
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, name), nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok && retired[id.Name] != "" {
				faults[name+" names something "+id.Name+": the glossary says "+retired[id.Name]] = true
			}
			return true
		})
	})
	report(t, faults)
}

// TestGlossary_FitsOnAPage: a newcomer reads it whole, and finds a word by its letter.
func TestGlossary_FitsOnAPage(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile(filepath.Join(root, "workflows", "README.md"))
	require.NoError(t, err)
	_, glossary, ok := strings.Cut(string(content), "\n| word | meaning |\n|---|---|\n")
	require.True(t, ok)

	var words []string
	for row := range strings.Lines(glossary) {
		word, _, _ := strings.Cut(strings.TrimPrefix(row, "| "), " |")
		words = append(words, word)
	}

	require.LessOrEqual(t, len(words), 60)
	require.IsIncreasing(t, words)
}
