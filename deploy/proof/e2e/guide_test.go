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

	require.Len(t, samples, len(samplePrograms))
	seen := map[string]bool{}
	for _, sample := range samples {
		t.Run(sample[1], func(t *testing.T) {
			program := samplePrograms[sample[1]]
			need.Program(t, "apt-get install "+program.debian, program.needs)
			dir := t.TempDir()
			source := filepath.Join(dir, program.command[len(program.command)-1])
			require.NoError(t, os.WriteFile(source, []byte(html.UnescapeString(sample[2])), 0o600))
			for range 2 { // a fresh key each time
				c := exec.CommandContext(t.Context(), program.command[0], program.command[1:]...) // #nosec G204 -- of this file
				c.Dir, c.Env = dir, append(os.Environ(), "CHECKOUT_API_URL="+e2e.Shared.APIURL(), "CHECKOUT_API_KEY="+m.Key)
				out, err := c.Output()
				require.NoError(t, err, "%s", out)
				var session struct{ ID, Status string }
				require.NoError(t, json.Unmarshal(out, &session), "%s", out)
				require.Equal(t, "pending", session.Status, "%s", out)
				require.False(t, seen[session.ID], "it answers an earlier session")
				seen[session.ID] = true
			}
		})
	}
}

// samplePrograms run the guide's samples. debian is the package with the program that a sample needs.
var samplePrograms = map[string]struct {
	command       []string
	needs, debian string
}{
	"sh":     {[]string{"sh", "sample.sh"}, "curl", "curl"},
	"go":     {[]string{"go", "run", "sample.go"}, "go", "golang"},
	"ts":     {[]string{"node", "sample.mjs"}, "node", "nodejs"},
	"python": {[]string{"python3", "sample.py"}, "python3", "python3"},
}
