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
	t.Run("goes on", func(t *testing.T) {
		t.Cleanup(func() { require.False(t, t.Skipped()) })
		MissingForPart(t, "a part", "apt-get install part")
	})
	var out strings.Builder
	Report(&out)
	require.Equal(t, "some tests, or parts of them, were skipped; to run them: apt-get install nothing && apt-get install part\n", out.String())
}
