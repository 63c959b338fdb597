package listen

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"example.com/checkout/workflows/checkout"
)

// reporter prints the progress: text for the developer, or JSON with one object a line.
type reporter struct {
	out  io.Writer
	json bool

	down      string // the address that is away, which was printed; "": none
	forwarded int
	failed    []fields // the last attempts for the events that listen gave up; not nil
}

// fields are the fields of a line of JSON. Each line has "kind", which is ready, notice, attempt or end, and "time".
type fields map[string]any

// print writes text, or the fields as JSON.
func (r *reporter) print(kind, text string, f fields) {
	if r.json {
		f["kind"], f["time"] = kind, checkout.FormatTime(time.Now())
		encoded, _ := checkout.EncodeJSON(f) // fails for no text and no number
		text = string(encoded)
	}
	_, _ = io.WriteString(r.out, text+"\n") // an error: the output has no reader any more
}

func (r *reporter) notice(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	r.print("notice", clock()+" "+text, fields{"message": text})
}

func clock() string { return time.Now().Format(time.TimeOnly) }

// ready prints the settings, and the secret that the local server needs.
func (r *reporter) ready(o Options, secret string) {
	types := cmp.Or(strings.Join(o.Events, ", "), "every type")
	r.print("ready", fmt.Sprintf(`Forwarding test-mode events: %s
  from   %s
  to     %s
  state  %s
The signing secret for your local server:
  %s
`, types, o.APIURL, o.ForwardTo, o.StateFile, secret), fields{
		"api": o.APIURL, "forward_to": o.ForwardTo, "secret": secret, "state_file": o.StateFile,
	})
}

// attempt prints the result of one POST. The next one follows after again; 0 means that none does.
func (r *reporter) attempt(e event, number int, o outcome, again time.Duration) {
	f := fields{
		"event_id": e.ID, "type": e.Type, "created_at": checkout.FormatTime(e.CreatedAt), "attempt": number,
		"status": o.status, "result": o.word(), "duration_ms": o.took.Milliseconds(),
	}
	text := fmt.Sprintf("%s %-18s %s → %-7s %5d ms", clock(), e.Type, e.ID, o.word(), o.took.Milliseconds())
	const indent = "\n         " // as wide as the clock and a space
	if o.err != nil {
		f["status"], f["error"] = nil, o.err.Error()
		text += indent + o.err.Error()
	}
	switch {
	case again > 0:
		f["retry_in_ms"] = again.Milliseconds()
		text += fmt.Sprintf("%sattempt %d of %d in %v", indent, number+1, len(retryWaits), again)
	case o.ok():
		r.forwarded++
	default:
		r.failed = append(r.failed, f)
		text += fmt.Sprintf("%sgiven up after %d attempts; listed again at the end", indent, number)
	}
	r.print("attempt", text, f)
}

// away prints, once, that a server cannot be reached.
func (r *reporter) away(a awayError) {
	if r.down != a.address {
		r.down = a.address
		r.notice("%s is away (%v); listen waits for it", a.address, a.error)
	}
}

func (r *reporter) back(address string) {
	if r.down == address {
		r.down = ""
		r.notice("%s is back", address)
	}
}

// end prints the summary of the run.
func (r *reporter) end() {
	text := fmt.Sprintf("\n%d forwarded, %d failed", r.forwarded, len(r.failed))
	for _, f := range r.failed {
		text += fmt.Sprintf("\n  %-18s %s → %s", f["type"], f["event_id"], f["result"])
	}
	if len(r.failed) > 0 {
		text += fmt.Sprintf("\nto send them and everything after them again: --since %s", r.failed[0]["created_at"])
	}
	r.print("end", text, fields{"forwarded": r.forwarded, "failed": len(r.failed), "failures": r.failed})
}
