package checkout_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/checkout/workflows/checkout"
)

// every is the answer of each phase to each message, by what the message is about.
const every = `
phase    message  | none              unknown           in flight         asked enough      decided

open     pay      | PaymentNotFound   accepted          accepted          accepted          accepted
open     complete | PaymentNotFound   PaymentNotFound   accepted          PaymentInFlight   accepted
open     expire   | accepted          accepted          accepted          accepted          accepted
open     advance  | accepted          accepted          accepted          accepted          accepted

paying   pay      | PaymentNotFound   PaymentInFlight   PaymentInFlight   PaymentInFlight   PaymentInFlight
paying   complete | PaymentNotFound   PaymentNotFound   accepted          PaymentInFlight   accepted
paying   expire   | PaymentInFlight   PaymentInFlight   PaymentInFlight   PaymentInFlight   PaymentInFlight
paying   advance  | accepted          accepted          accepted          accepted          accepted

due      pay      | PaymentNotFound   PaymentInFlight   PaymentInFlight   PaymentInFlight   PaymentInFlight
due      complete | PaymentNotFound   PaymentNotFound   accepted          PaymentInFlight   accepted
due      expire   | PaymentInFlight   PaymentInFlight   PaymentInFlight   PaymentInFlight   PaymentInFlight
due      advance  | PaymentInFlight   PaymentInFlight   PaymentInFlight   PaymentInFlight   PaymentInFlight

expiring pay      | PaymentNotFound   SessionNotPending SessionNotPending SessionNotPending SessionNotPending
expiring complete | PaymentNotFound   SessionNotPending accepted          PaymentInFlight   accepted
expiring expire   | accepted          accepted          accepted          accepted          accepted
expiring advance  | accepted          accepted          accepted          accepted          accepted

expired  pay      | PaymentNotFound   SessionNotPending SessionNotPending SessionNotPending SessionNotPending
expired  complete | PaymentNotFound   SessionNotPending accepted          PaymentInFlight   accepted
expired  expire   | accepted          accepted          accepted          accepted          accepted
expired  advance  | accepted          accepted          accepted          accepted          accepted

ended    pay      | PaymentNotFound   SessionNotPending SessionNotPending SessionNotPending SessionNotPending
ended    complete | PaymentNotFound   SessionNotPending accepted          PaymentInFlight   accepted
ended    expire   | SessionNotPending SessionNotPending SessionNotPending SessionNotPending SessionNotPending
ended    advance  | SessionNotPending SessionNotPending SessionNotPending SessionNotPending SessionNotPending

orphaned pay      | PaymentNotFound   SessionNotPending SessionNotPending SessionNotPending SessionNotPending
orphaned complete | PaymentNotFound   SessionNotPending accepted          PaymentInFlight   accepted
orphaned expire   | SessionNotPending SessionNotPending SessionNotPending SessionNotPending SessionNotPending
orphaned advance  | SessionNotPending SessionNotPending SessionNotPending SessionNotPending SessionNotPending
`

// TestPhase_EveryMessage reads the table above: a payment in flight in a phase without one
// cannot come up, and is there so that no combination is left out.
func TestPhase_EveryMessage(t *testing.T) {
	t.Parallel()
	want := map[string][]string{}
	for _, line := range strings.Split(every, "\n") {
		head, answers, isRow := strings.Cut(line, "|")
		if isRow && !strings.HasPrefix(head, "phase") {
			want[strings.Join(strings.Fields(head), " ")] = strings.Fields(answers)
		}
	}

	for _, phase := range checkout.Phases {
		for _, message := range checkout.Messages {
			row := fmt.Sprintf("%s %s", phase, message)
			require.Len(t, want[row], len(checkout.Abouts), row)
			for i, about := range checkout.Abouts {
				require.Equal(t, want[row][i], string(phase.Answer(message, about)), "%s, about %s", row, about)
			}
			delete(want, row)
		}
	}
	require.Empty(t, want, "rows of phases or messages that there are not")
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

const readme = "../README.md"

var updateREADME = flag.Bool("update-readme", false, "write the table of phases into "+readme)

// TestPhase_TheREADMEShowsTheTable holds workflows/README.md against the code.
func TestPhase_TheREADMEShowsTheTable(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(readme)
	require.NoError(t, err)
	before, rest, found := strings.Cut(string(text), "<!-- session table -->\n")
	require.True(t, found, "%s has no place for the table", readme)
	shown, after, found := strings.Cut(rest, "<!-- end of session table -->")
	require.True(t, found, "%s does not say where the table ends", readme)

	if *updateREADME {
		text := before + "<!-- session table -->\n" + drawn() + "<!-- end of session table -->" + after
		require.NoError(t, os.WriteFile(readme, []byte(text), 0o600))
		return
	}
	require.Equal(t, drawn(), shown, "the README shows another table than the code has; "+
		"write it anew with: go test ./workflows/checkout -run README -update-readme")
}

// drawn is the table in Markdown.
func drawn() string {
	var b strings.Builder
	b.WriteString("\n| phase |")
	for _, m := range checkout.Messages {
		fmt.Fprintf(&b, " `%s` |", m)
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(checkout.Messages)) + "\n")
	for _, phase := range checkout.Phases {
		fmt.Fprintf(&b, "| %s |", phase)
		for _, m := range checkout.Messages {
			fmt.Fprintf(&b, " %s |", phase.Answer(m, checkout.AboutUnknown))
		}
		b.WriteString("\n")
	}

	b.WriteString("\n| transaction id of the message | `pay` | `complete` |\n|---|---|---|\n")
	for _, about := range checkout.Abouts {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", about,
			alike(checkout.MessagePay, about), alike(checkout.MessageComplete, about))
	}
	return b.String() + "\n"
}

// alike is the answer to a message when every phase has the same.
func alike(m checkout.Message, about checkout.About) string {
	answer := checkout.Phases[0].Answer(m, about)
	for _, phase := range checkout.Phases {
		if phase.Answer(m, about) != answer {
			return "as the phase says"
		}
	}
	return string(answer)
}
