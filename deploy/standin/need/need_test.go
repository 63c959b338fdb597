package need

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestProgram_IsSkippedAndReported(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv("CI", "")
	t.Run("skipped", func(t *testing.T) {
		t.Cleanup(func() { require.True(t, t.Skipped()) })
		Program(t, "apt-get install nothing", "nothing", "none")
	})
	var out strings.Builder
	Report(&out)
	require.Equal(t, "some tests were skipped; to run them: apt-get install nothing\n", out.String())
}
