package e2e_test

import (
	"encoding/json"
	"html"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/deploy/proof/e2e"
	"example.com/checkout/deploy/standin/need"
)

// TestGuide_ItsSamplesCreateASessionInEachLanguage runs the samples as the guide of a running service shows them.
func TestGuide_ItsSamplesCreateASessionInEachLanguage(t *testing.T) {
	t.Parallel()
	m := e2e.NewMerchant(t, e2e.Shared)
	page := e2e.Ask(t, http.MethodGet, e2e.Shared.APIURL()+"/docs", "").Body
	tabs, _, _ := strings.Cut(string(page[strings.Index(string(page), "<fieldset"):]), "</fieldset>")
	require.Contains(t, string(page), "export CHECKOUT_API_URL="+e2e.Shared.APIURL()+"\n", "the reader's own address")
	samples := regexp.MustCompile(`(?s)<code class="language-(\w+)">(.*?)</code>`).FindAllStringSubmatch(tabs, -1)

	programs := map[string][]string{
		"sh": {"sh", "sample.sh"}, "go": {"go", "run", "sample.go"}, "ts": {"node", "sample.mjs"}, "python": {"python3", "sample.py"},
	}
	require.Len(t, samples, len(programs))
	seen := map[string]bool{}
	for _, sample := range samples {
		program := programs[sample[1]]
		need.Program(t, "apt-get install curl nodejs python3", program[0])
		dir := t.TempDir()
		source := filepath.Join(dir, program[len(program)-1])
		require.NoError(t, os.WriteFile(source, []byte(html.UnescapeString(sample[2])), 0o600))
		for range 2 { // a fresh key each time
			c := exec.CommandContext(t.Context(), program[0], program[1:]...) // #nosec G204 -- of this file
			c.Dir, c.Env = dir, append(os.Environ(), "CHECKOUT_API_URL="+e2e.Shared.APIURL(), "CHECKOUT_API_KEY="+m.Key)
			out, err := c.Output()
			require.NoError(t, err, "%s: %s", sample[1], out)
			var session struct{ ID, Status string }
			require.NoError(t, json.Unmarshal(out, &session), "%s: %s", sample[1], out)
			require.Equal(t, "pending", session.Status, "%s: %s", sample[1], out)
			require.False(t, seen[session.ID], "%s answers an earlier session", sample[1])
			seen[session.ID] = true
		}
	}
}
