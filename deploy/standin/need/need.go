// Package need skips tests that need more than Go and PostgreSQL, on a computer that has no more.
package need

import (
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
)

var missing struct {
	sync.Mutex
	installs map[string]bool // commands
}

// Program returns the path of a program. The test is skipped when neither the PATH nor /usr/sbin has one of the names;
// install is the command that installs it.
func Program(t testing.TB, install string, names ...string) string {
	t.Helper()
	for _, name := range names {
		for _, at := range []string{name, "/usr/sbin/" + name} { // Debian's directory is not on every PATH
			if path, err := exec.LookPath(at); err == nil {
				return path
			}
		}
	}
	Missing(t, strings.Join(names, " or "), install)
	return ""
}

// Missing skips the test, which cannot run without what. With CI=true it fails the test: .ci/run installs everything.
func Missing(t testing.TB, what, install string) {
	t.Helper()
	note(t, what, install)
	t.SkipNow()
}

// MissingForPart is Missing when the rest of the test can run without what. It does not skip the test.
func MissingForPart(t testing.TB, what, install string) {
	t.Helper()
	note(t, what, install)
}

func note(t testing.TB, what, install string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("%s is missing: %s", what, install)
	}
	missing.Lock()
	if missing.installs == nil {
		missing.installs = map[string]bool{}
	}
	missing.installs[install] = true
	missing.Unlock()
	t.Logf("%s is missing: %s", what, install)
}

// Report writes one line with the commands that install what the tests missed, or nothing. A TestMain calls it at the
// end. go test shows the line with -v.
func Report(out io.Writer) {
	missing.Lock()
	defer missing.Unlock()
	if len(missing.installs) > 0 {
		commands := strings.Join(slices.Sorted(maps.Keys(missing.installs)), " && ")
		// the tests have ended
		_, _ = fmt.Fprintf(out, "some tests, or parts of them, were skipped; to run them: %s\n", commands)
	}
}
