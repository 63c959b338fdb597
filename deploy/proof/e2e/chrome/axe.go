package chrome

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/proof/e2e"
	"example.com/checkout/deploy/standin/need"
)

// axeSource returns the source of axe-core. It installs axe-core if it is missing.
var axeSource = sync.OnceValues(func() (string, error) {
	axeDir := e2e.Path("deploy", "tools", "axe") // its lock file pins axe-core
	file := filepath.Join(axeDir, "node_modules", "axe-core", "axe.min.js")
	if _, err := os.Stat(file); err != nil {
		install := exec.Command("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
		install.Dir = axeDir
		if out, err := install.CombinedOutput(); err != nil {
			return "", fmt.Errorf("there is no axe-core: 'npm ci' in deploy/tools/axe: %w\n%s", err, out)
		}
	}
	source, err := os.ReadFile(file)
	return string(source), err
})

// Axe runs axe-core on the present page. It fails the test for every violation of WCAG 2.2 A and AA
// and of axe's best practices. The page's content security policy does not block axe-core.
func (b *Tab) Axe(what string) { b.AxeIn(Look{}, what) }

// AxeIn is Axe with the rules that a look needs.
func (b *Tab) AxeIn(l Look, what string) {
	source, err := axeSource()
	if err != nil {
		b.T.Log(err)
		need.MissingForPart(b.T, "axe-core", "apt-get install npm")
		return
	}
	if !Get(b, chromedp.Evaluate[bool](`"axe" in window`)) { // once a document: it is half a megabyte
		b.Script(`(() => {` + source + `})()`)
	}
	found := Get(b, chromedp.Evaluate[[]struct {
		ID, Help string
		Nodes    []string
	}](endTransitions+`;
		axe.run(document, {
			resultTypes: ["violations"], iframes: false, // those of another origin, which do not answer
			runOnly: `+l.runOnly()+`,
		}).then((r) => r.violations.map((v) => ({
			ID: v.id, Help: v.help, Nodes: v.nodes.map((n) => n.html + "\n      " + n.failureSummary.replaceAll("\n", " ")),
		})))`, chromedp.EvalAwaitPromise))
	var all strings.Builder
	for _, v := range found {
		fmt.Fprintf(&all, "\n  %s: %s", v.ID, v.Help)
		for _, n := range v.Nodes {
			fmt.Fprintf(&all, "\n    %.600s", n)
		}
	}
	require.Empty(b.T, all.String(), "axe on %s", what)
}

// runOnly is the option of axe that chooses the look's rules.
func (l Look) runOnly() string {
	if l.rules == nil {
		return `["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]`
	}
	return `{type: "rule", values: ["` + strings.Join(l.rules, `", "`) + `"]}`
}
