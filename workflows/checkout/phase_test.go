package checkout_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/workflows/checkout"
)

// TestPhase_EveryMessage holds the two tables of README.md of package workflows: what a message is about decides, and
// where that table has nothing else, the phase does. A payment in flight in a phase without one cannot come up, and is
// there so that no combination is left out.
func TestPhase_EveryMessage(t *testing.T) {
	t.Parallel()
	phases := readmeTable(t, "phase", checkout.Messages...)
	abouts := readmeTable(t, "transaction id of the message", checkout.MessagePay, checkout.MessageComplete)
	require.Len(t, phases, len(checkout.Phases))
	require.Len(t, abouts, len(checkout.Abouts))
	for _, phase := range checkout.Phases {
		for _, message := range checkout.Messages {
			for _, about := range checkout.Abouts {
				want, named := abouts[string(about)][message]
				if !named || want == "by its phase" {
					want = phases[string(phase)][message]
				}
				require.NotEmpty(t, want, "%s, %s, about %s", phase, message, about)
				require.Equal(t, want, string(phase.Answer(message, about)), "%s, %s, about %s", phase, message, about)
			}
		}
	}
}

// readmeTable returns the cells of the table with this head.
func readmeTable(t *testing.T, first string, messages ...checkout.Message) map[string]map[checkout.Message]string {
	text, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	head := "\n| " + first + " |"
	for _, m := range messages {
		head += " `" + string(m) + "` |"
	}
	_, table, found := strings.Cut(string(text), head+"\n")
	require.True(t, found, "README.md has no table with the head %s", head)
	table, _, _ = strings.Cut(table, "\n\n")
	cells := map[string]map[checkout.Message]string{}
	for _, line := range strings.Split(table, "\n")[1:] { // the first one is the line below the head
		row := strings.Split(strings.Trim(line, "| "), " | ")
		require.Len(t, row, 1+len(messages), line)
		cells[row[0]] = map[checkout.Message]string{}
		for i, m := range messages {
			cells[row[0]][m] = row[1+i]
		}
	}
	return cells
}

func TestPhase_NothingIsPaidInAFinalPhase(t *testing.T) {
	t.Parallel()
	var final []checkout.Phase
	for _, phase := range checkout.Phases {
		if phase.Final() {
			final = append(final, phase)
			require.Equal(t, checkout.RefusedNotPending, phase.Answer(checkout.MessagePay, checkout.AboutUnknown))
		}
	}
	require.Equal(t, []checkout.Phase{checkout.PhaseExpired, checkout.PhaseEnded, checkout.PhaseOrphaned}, final)
}
