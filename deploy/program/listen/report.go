package listen

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"time"

	"example.com/checkout/workflows/checkout"
)

// reporter prints the progress for the developer: text in lines of at most 80 columns, or JSON with
// one object a line.
type reporter struct {
	out  io.Writer
	json bool

	apiDown   bool // and this was printed
	localDown bool
	forwarded int
	failed    []failure
}

// failure is an event that listen gave up.
type failure struct {
	ID        string `json:"event_id"`
	Type      string `json:"type"`
	CreatedAt string `json:"created_at"`
	Result    string `json:"result"`
}

// line is one line of the JSON output. Kind is ready, notice, attempt or end.
type line struct {
	Kind    string `json:"kind"`
	Time    string `json:"time"`
	Message string `json:"message,omitempty"` // set with notice

	API       string `json:"api,omitempty"` // set with ready, as the next three fields
	ForwardTo string `json:"forward_to,omitempty"`
	Secret    string `json:"secret,omitempty"`
	StateFile string `json:"state_file,omitempty"`

	*attemptLine
	*endLine
}

type attemptLine struct {
	failure
	Attempt  int    `json:"attempt"`
	Status   *int   `json:"status"` // null: no answer
	Error    string `json:"error,omitempty"`
	Duration int64  `json:"duration_ms"`
	RetryIn  int64  `json:"retry_in_ms,omitempty"`
}

type endLine struct {
	Forwarded int       `json:"forwarded"`
	Failed    int       `json:"failed"`
	Failures  []failure `json:"failures"`
}

func (r *reporter) encode(l line) {
	l.Time = checkout.FormatTime(time.Now())
	text, err := checkout.EncodeJSON(l)
	if err != nil {
		// No error: only strings.
		text, _ = json.Marshal(map[string]string{"kind": "notice", "message": err.Error()})
	}
	r.print(string(text))
}

// print writes a line. An error means that the output has no reader any more.
func (r *reporter) print(text string) { _, _ = io.WriteString(r.out, text+"\n") }

// notice prints a message.
func (r *reporter) notice(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if r.json {
		r.encode(line{Kind: "notice", Message: strings.ReplaceAll(text, "\n", " ")})
		return
	}
	r.print(r.clock() + " " + strings.ReplaceAll(text, "\n", "\n"+indent))
}

func (r *reporter) clock() string { return time.Now().Format(time.TimeOnly) }

// indent is as wide as the clock and a space.
const indent = "         "

// ready prints the settings, and the secret that the local server needs.
func (r *reporter) ready(o Options, s *stateFile) {
	if r.json {
		r.encode(line{Kind: "ready", API: o.APIURL, ForwardTo: o.ForwardTo, Secret: s.Secret, StateFile: s.path})
		return
	}
	made := "as before"
	if s.isNew {
		made = "made now and kept in the state file"
	}
	types := "every type"
	if len(o.Events) > 0 {
		types = listed(o.Events)
	}
	r.print(fmt.Sprintf(`Forwarding test-mode events: %s
  from   %s
  to     %s
  state  %s
The signing secret for your local server, %s:
  %s
`, types, o.APIURL, o.ForwardTo, s.path, made, s.Secret))
}

// catchUp prints how many missed events are sent before new ones. With more, n is not all of them.
func (r *reporter) catchUp(n int, more, resumed bool) {
	which := "since the time you gave"
	if resumed {
		which = "missed while listen did not run"
	}
	switch {
	case more:
		r.notice("the events %s come first", which)
	case n == 0:
		r.notice("no events %s", which)
	case n == 1:
		r.notice("1 event %s; it comes first", which)
	default:
		r.notice("%d events %s; they come first", n, which)
	}
}

// attempt prints the result of one POST. The next one follows after again; 0 means that none does.
func (r *reporter) attempt(e event, number int, o outcome, again time.Duration) {
	r.localBack()
	f := failure{ID: e.ID, Type: string(e.Type), CreatedAt: checkout.FormatTime(e.CreatedAt), Result: o.word()}
	switch {
	case o.ok():
		r.forwarded++
	case again == 0:
		r.failed = append(r.failed, f)
	}
	if r.json {
		a := &attemptLine{
			failure:  f,
			Attempt:  number,
			Error:    o.why(),
			Duration: o.took.Milliseconds(),
			RetryIn:  again.Milliseconds(),
		}
		if o.status != 0 {
			a.Status = &o.status
		}
		r.encode(line{Kind: "attempt", attemptLine: a})
		return
	}

	r.print(fmt.Sprintf("%s %-18s %s → %-7s %5d ms", r.clock(), e.Type, e.ID, o.word(), o.took.Milliseconds()))
	why := o.why()
	if why != "" {
		why += "; "
	}

	switch {
	case again > 0:
		r.print(fmt.Sprintf("%s%sattempt %d of %d in %v", indent, why, number+1, len(retryWaits)+1, again))
	case !o.ok():
		r.print(fmt.Sprintf("%s%sgiven up after %d attempts; listed again at the end", indent, why, number))
	}
}

// word returns the outcome in at most 7 letters.
func (o outcome) word() string {
	switch {
	case o.status != 0:
		return fmt.Sprint(o.status)
	case errors.Is(o.err, context.DeadlineExceeded):
		return "timeout"
	case !o.reached:
		return "refused"
	}
	return "error"
}

// why returns an explanation that the status number does not give.
func (o outcome) why() string {
	switch {
	case o.status >= 300 && o.status <= 399:
		return "redirects are not followed"
	case o.err == nil:
		return ""
	case errors.Is(o.err, syscall.ECONNREFUSED):
		return "connection refused"
	}
	return reason(o.err)
}

// localAway prints, once, that the local server cannot be reached.
func (r *reporter) localAway(address string, o outcome) {
	if !r.localDown {
		r.localDown = true
		r.notice("%s is not there (%s);\nevents wait for it, in order", address, o.why())
	}
}

func (r *reporter) localBack() {
	if r.localDown {
		r.localDown = false
		r.notice("the local server is there")
	}
}

// apiAway prints, once, that the API does not answer.
func (r *reporter) apiAway(address string, t *trouble) {
	if !r.apiDown {
		r.apiDown = true
		r.notice("no events from %s for now (%s);\nasking again until it answers", address, t.text)
	}
}

func (r *reporter) apiBack() {
	if r.apiDown {
		r.apiDown = false
		r.notice("the API answers")
	}
}

// maxListed is how many failed events the summary names.
const maxListed = 20

// end prints the summary of the run.
func (r *reporter) end() {
	if r.json {
		failures := append([]failure{}, r.failed...) // an empty list in JSON, not null
		r.encode(line{Kind: "end", endLine: &endLine{r.forwarded, len(r.failed), failures}})
		return
	}
	r.print(fmt.Sprintf("\n%d forwarded, %d failed", r.forwarded, len(r.failed)))
	for i, f := range r.failed {
		if i == maxListed {
			r.print(fmt.Sprintf("  and %d more", len(r.failed)-i))
			break
		}
		r.print(fmt.Sprintf("  %-18s %s → %s", f.Type, f.ID, f.Result))
	}
	if len(r.failed) > 0 {
		r.print("to send them and everything after them again: --since " + r.failed[0].CreatedAt)
	}
}
